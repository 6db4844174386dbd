# Attack: Compute without end, in more threads than there are processors.
# Why it matters: A user who pays for half a processor would get all of them, and others none.
# What must hold: The run uses at most half of its elapsed time as processor time, and the host stays responsive.
# Needs: probe
# Run: --cpus 0.5 --timeout 3
# Expect: phase timed_out
# Expect: reason execution_timeout
# Host: half responsive
# Limits: cpu
./probe spin 8
