# Attack: Have the kernel copy each sent packet into a long queue of its socket, for the packet's time or for an error.
# Why it matters: No cgroup is charged for such copies: 60 sockets with queues of 8 MiB hold 470 MB after a tenth of a second.
# What must hold: Options have no such effect, and a queue cannot be lengthened: with a request in each packet, as older kernels grant it,
#   208 KiB of a socket remain.
# Needs: probe
# Not on: gvisor (gVisor's own kernel holds the queues, and the sandbox is charged for its memory)

./probe queued 212992
