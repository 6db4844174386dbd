# Attack: Make connections that no program accepts, with data in each, and more sockets that listen for such connections.
# Why it matters: The kernel charges a connection and its data to a cgroup only when a program accepts it; until then they are the host's memory.
# What must hold: A socket keeps at most 129 such connections, each with at most 128 KiB, and 64 sockets can listen.
# Needs: probe
# Not on: gvisor (gVisor's own kernel holds the connections, and the sandbox is charged for its memory)

./probe backlog 129 64
