# Attack: Leave 5,000 orphans that end at once.
# Why it matters: If nobody reaps them the process table fills with the dead.
# What must hold: They are reaped; no fork is refused.
# Needs: probe
# Run: --pids 64

./probe zombies 5000
