# Attack: Mount something new, by mount(2) and by fsopen, open_tree and move_mount.
# Why it matters: The new calls are not covered by filters that only know the old.
# What must hold: All refused.
# Needs: probe
# Leaves: nothing

./probe mounts
