# Attack: Open netlink sockets without end, from many threads at once, and hide them in messages.
# Why it matters: What waits in each is 200 KiB of kernel memory that is charged to nobody.
# What must hold: At most 64 live in a sandbox, wherever their descriptors are; interfaces can be listed. gVisor's are memory of its own.
# Needs: probe
# Not on: gvisor (the sockets are memory of its own kernel, which is charged to the sandbox)

./probe netlinks 64
