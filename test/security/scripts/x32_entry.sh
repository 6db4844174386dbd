# Attack: Use the x32 system call numbers.
# Why it matters: They reach the same calls around a filter that knows only the common numbers.
# What must hold: ENOSYS, or the end of who tries.
# Needs: probe
# Leaves: nothing

./probe x32
