# Attack: Signal every process by its number, and every group of processes, and take hold of them by pidfd.
# Why it matters: Numbers of processes are all that a signal needs; neighbours and the daemon have some, too.
# What must hold: There is nobody but who /proc shows, and they are the sandbox's own.
# Needs: probe
# Host: neighbour
# Leaves: nothing
./probe foreign 32768
