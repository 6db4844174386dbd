# Attack: Make POSIX timers in another sandbox until there are no more, each of which holds a queued signal.
# Why it matters: The kernel counts them by user; without them host programs fail, and no sandbox can be made.
# What must hold: A neighbour can be made and has its own, and so has root of the host.
# Needs: probe
# Host: takes-signals
# Leaves: nothing

./probe use signals 500
