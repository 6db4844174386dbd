# Attack: Put filters into the kernel, of sockets and of system calls.
# Why it matters: Their machine code is charged to nobody, and there is room for little of it on a host: without, no sandbox can be made.
# What must hold: Each is refused; what is available can be asked.
# Needs: probe
# Not on: gvisor (filters are memory of its own kernel, which is charged to the sandbox)

./probe filters
