# Attack: Change identity: setuid, setgid, setgroups, capset, sethostname.
# Why it matters: A capability kept by mistake turns each of these calls into root inside the namespace.
# What must hold: Each call is refused.
# Needs: probe
# Leaves: nothing

./probe become
