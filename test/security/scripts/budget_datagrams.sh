# Attack: Begin a datagram in each of many sockets, and never complete one.
# Why it matters: A socket keeps the parts of a datagram, up to 64 KiB, and no cgroup is charged for them.
# What must hold: A sandbox has at most 1024 UDP sockets.
# Needs: probe
# Run: --nofile 4096
# Not on: gvisor (gVisor's own kernel holds the sockets, and the sandbox is charged for its memory)

./probe corked 1024
