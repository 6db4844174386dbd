# Attack: Lock as much shared memory as it goes, in another sandbox.
# Why it matters: The kernel counts it by user, for all of a user's processes together.
# What must hold: A neighbour has its own, and so has root of the host.
# Needs: probe
# Host: takes-locked
# Leaves: nothing

./probe use locked 8
