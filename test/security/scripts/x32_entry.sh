# Attack: Use the x32 system call numbers.
# Why it matters: They reach the same calls around a filter that knows only the common numbers.
# What must hold: The call returns ENOSYS, or the kernel kills the process.
# Needs: probe
# Leaves: nothing

./probe x32
