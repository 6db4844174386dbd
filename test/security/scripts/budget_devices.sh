# Attack: Find a device node of the host, to lock and to watch it.
# Why it matters: Each use of a node, such as a write to /dev/null, looks at all locks and watches of it.
# What must hold: All nodes of a sandbox, also those that cover files of /proc, are others than the host's.
# Needs: probe
# Host: nodes
# Leaves: nothing
# Not on: rootless shared (only root can make device nodes)

./probe alien
