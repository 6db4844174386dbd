# Attack: Take file locks without end, in several processes, and hide them in file tables that outlive their owner.
# Why it matters: Each is 195 bytes of kernel memory that is charged to nobody; a million a second fill the host.
# What must hold: At most 20,480 live in a sandbox, and none belongs to an open file description. gVisor's are memory of its own.
# Needs: probe
# Not on: gvisor (the locks are memory of its own kernel, which is charged to the sandbox)
# Not on: docker (an engine hides the list of locks, so nothing can count them; the table of budgets says so)

./probe locks 20480
