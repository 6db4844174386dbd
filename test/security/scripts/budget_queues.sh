# Attack: Use up all bytes of POSIX message queues in another sandbox.
# Why it matters: The kernel counts these bytes for each user.
# What must hold: A neighbour can still make queues, and so can root of the host.
# Needs: probe
# Host: takes-queues
# Not on: gvisor (gVisor's own kernel has queues of its own)

./probe use queues 0
