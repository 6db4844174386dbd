# Attack: Compute without end, in more threads than there are processors.
# Why it matters: Whoever pays for half a processor gets them all, and the others nothing.
# What must hold: No more processor time is used than half of the time that it took, and the host stays responsive.
# Needs: probe
# Run: --cpus 0.5 --timeout 3
# Expect: phase timed_out
# Expect: reason execution_timeout
# Host: half responsive
# Limits: cpu
./probe spin 8
