# Attack: Take all bytes of POSIX message queues in another sandbox.
# Why it matters: The kernel counts them by user.
# What must hold: A neighbour has its own, and so has root of the host.
# Needs: probe
# Host: takes-queues
# Not on: gvisor (its kernel has none of the host's)

./probe use queues 0
