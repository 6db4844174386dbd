# Attack: Fork without end, in every child.
# Why it matters: The process table belongs to the whole machine.
# What must hold: Forks are refused at the limit, the host stays responsive, and the run ends with everything gone.
# Needs: probe
# Run: --pids 64 --timeout 300
# Expect: phase failed
# Host: responsive

./probe forkbomb
