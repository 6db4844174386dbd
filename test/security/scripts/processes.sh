# Attack: Start more processes than --nproc allows, where --pids allows more.
# Why it matters: The lower of the two limits must be in force.
# What must hold: Forks are refused at the lower limit, and not long before it.
# Needs: probe
# Run: --pids 64 --nproc 32

./probe processes 32
