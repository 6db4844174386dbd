# Attack: Take file locks without end, in several processes, and hide them in file tables that outlive their owner.
# Why it matters: Each lock is 195 bytes of kernel memory that no cgroup is charged for; a million a second fill the host.
# What must hold: At most 20,480 locks exist in a sandbox, and none belongs to an open file description. On gVisor they are memory of the
#   sandbox.
# Needs: probe
# Not on: gvisor (gVisor's own kernel holds the locks, and the sandbox is charged for its memory)
# Not on: docker (an engine hides the list of locks, so Belljar cannot count them; see the table of budgets)

./probe locks 20480
