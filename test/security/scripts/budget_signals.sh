# Attack: Make POSIX timers in another sandbox until the kernel refuses more. Each holds a queued signal.
# Why it matters: The kernel counts queued signals for each user; without them host programs fail, and no sandbox can be made.
# What must hold: A neighbour can be made and can make timers, and so can root of the host.
# Needs: probe
# Host: takes-signals
# Leaves: nothing

./probe use signals 500
