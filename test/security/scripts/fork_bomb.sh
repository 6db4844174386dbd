# Attack: Fork without end, in every child.
# Why it matters: All programs of the machine share the process table.
# What must hold: Forks are refused at the limit, the host stays responsive, and the run ends without survivors.
# Needs: probe
# Run: --pids 64 --timeout 300
# Expect: phase failed
# Expect: exit 9
# Host: responsive

./probe forkbomb
