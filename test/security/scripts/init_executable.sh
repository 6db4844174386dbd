# Attack: Open PID 1's own program for writing, directly and through an O_PATH descriptor.
# Why it matters: That is how CVE-2019-5736 replaced the runtime of the host.
# What must hold: Refused every way.
# Needs: probe
# Leaves: nothing

./probe initexe
