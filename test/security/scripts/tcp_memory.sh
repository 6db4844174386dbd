# Attack: Leave unread data in many TCP connections.
# Why it matters: Without a limit their buffers come from the memory of the host.
# What must hold: The buffers are bounded: on cgroup v1 to 64 MiB in addition to the memory, on v2 as part of it.
# Needs: probe
# Run: --memory 256m
# Limits: memory
# Not on: gvisor (gVisor's own kernel holds the buffers, and the sandbox is charged for its memory)
# Not on: docker (the engine sets no such limit on cgroup v1; see the table of budgets)

./probe buffers 160
