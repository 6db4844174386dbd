# Attack: Fork without end.
# Why it matters: As for fork_bomb; this script tests the accounting.
# What must hold: Where a cgroup counts processes, the run reports pids_limit_exceeded; elsewhere it fails, and no process survives.
# Needs: probe
# Run: --pids 32 --timeout 300
# Expect: phase failed
# Expect: exit 9
# Expect: reason pids_limit_exceeded if pids-cgroup

./probe forkbomb
