# Attack: Load filters into the kernel, for sockets and for system calls.
# Why it matters: No cgroup is charged for their machine code, and a host has little room for it: if it is full, no sandbox can be made.
# What must hold: Each load is refused; queries about the available features work.
# Needs: probe
# Not on: gvisor (gVisor's own kernel holds the filters, and the sandbox is charged for its memory)

./probe filters
