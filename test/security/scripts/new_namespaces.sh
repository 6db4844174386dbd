# Attack: Make new namespaces with unshare, clone and clone3, and enter those of PID 1.
# Why it matters: A program has every capability in a user namespace of its own, and most kernel exploits of recent years begin there.
# What must hold: Each call is refused, also with random upper halves of the flags; a plain fork works.
# Needs: probe
# Leaves: nothing

./probe namespaces
