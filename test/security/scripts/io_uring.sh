# Attack: Set up an io_uring.
# Why it matters: It does what other calls do, past the filter, and is the richest source of kernel holes.
# What must hold: Refused.
# Needs: probe
# Leaves: nothing

./probe uring
