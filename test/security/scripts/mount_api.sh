# Attack: Mount a file system, by mount(2) and by fsopen, open_tree and move_mount.
# Why it matters: Filters that know only the old call do not cover the new ones.
# What must hold: Each call is refused.
# Needs: probe
# Leaves: nothing

./probe mounts
