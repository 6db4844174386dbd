# Attack: Make each system call that has no business in a sandbox, by its number.
# Why it matters: Each is an entry to parts of the kernel with a long record of holes.
# What must hold: Each answers EPERM or ENOSYS.
# Needs: probe
# Leaves: nothing

./probe denied
