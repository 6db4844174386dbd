# Attack: Fork without end.
# Why it matters: As before; here the accounting is tested.
# What must hold: The run says pids_limit_exceeded.
# Needs: probe
# Run: --pids 32 --timeout 30
# Expect: phase failed
# Expect: reason pids_limit_exceeded
# Limits: pids-cgroup

./probe forkbomb
