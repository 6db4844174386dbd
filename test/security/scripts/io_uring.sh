# Attack: Set up an io_uring.
# Why it matters: An io_uring makes calls that the filter does not see, and has a long record of kernel vulnerabilities.
# What must hold: The call is refused.
# Needs: probe
# Leaves: nothing

./probe uring
