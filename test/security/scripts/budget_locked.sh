# Attack: Lock as much shared memory as possible, in another sandbox.
# Why it matters: The kernel counts locked memory for each user, over all of the user's processes.
# What must hold: A neighbour can still lock memory, and so can root of the host.
# Needs: probe
# Host: takes-locked
# Leaves: nothing

./probe use locked 8
