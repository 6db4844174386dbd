# Attack: Make each system call that a sandbox has no use for, by its number.
# Why it matters: Each is an entry to a part of the kernel with a long record of vulnerabilities.
# What must hold: Each returns EPERM or ENOSYS.
# Needs: probe
# Leaves: nothing

./probe denied
