# Attack: Fork without end.
# Why it matters: As before; here the accounting is tested.
# What must hold: Where cgroups count, the run says pids_limit_exceeded; elsewhere it fails and nothing is left.
# Needs: probe
# Run: --pids 32 --timeout 300
# Expect: phase failed
# Expect: reason pids_limit_exceeded if pids-cgroup

./probe forkbomb
