# Attack: Make device nodes and look for devices of the host.
# Why it matters: /dev/mem or a disk is the machine.
# What must hold: None can be made; /dev holds the harmless ones only.
# Needs: probe
# Leaves: nothing

./probe devices /workspace /tmp /run /dev/shm /dev
