# Attack: Make device nodes, and search for devices of the host.
# Why it matters: A program that can open /dev/mem or a disk controls the machine.
# What must hold: No device node can be made; /dev holds only harmless ones.
# Needs: probe
# Leaves: nothing

./probe devices /workspace /tmp /run /dev/shm /dev
