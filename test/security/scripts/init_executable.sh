# Attack: Open PID 1's own program for writing, directly and through an O_PATH descriptor.
# Why it matters: CVE-2019-5736 replaced the runtime of the host in this way.
# What must hold: Every way is refused.
# Needs: probe
# Leaves: nothing

./probe initexe
