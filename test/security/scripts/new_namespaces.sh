# Attack: Make new namespaces with unshare, clone and clone3, and enter those of PID 1.
# Why it matters: In a user namespace of one's own one holds every capability, and most kernel exploits of recent
#   years begin there.
# What must hold: All refused, also with rubbish in the upper half of the flags; a plain fork works.
# Needs: probe
# Leaves: nothing

./probe namespaces
