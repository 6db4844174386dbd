# Attack: Open netlink sockets without end, from many threads at once, and hide them in messages.
# Why it matters: Each can hold 200 KiB of kernel memory that no cgroup is charged for.
# What must hold: At most 64 exist in a sandbox, wherever their descriptors are; interfaces can be listed. On gVisor they are memory of the
#   sandbox.
# Needs: probe
# Not on: gvisor (gVisor's own kernel holds the sockets, and the sandbox is charged for its memory)

./probe netlinks 64
