# Attack: Leave data in many TCP connections that nobody reads.
# Why it matters: Without a limit of their own the buffers come from what all of the host has.
# What must hold: They are bounded: on cgroup v1 to 64 MiB beside the memory, on v2 as part of it.
# Needs: probe
# Run: --memory 256m
# Limits: memory
# Not on: gvisor (they are memory of its own kernel, which is charged to the sandbox)
# Not on: docker (the engine sets no such limit on cgroup v1; the table of budgets says so)

./probe buffers 160
