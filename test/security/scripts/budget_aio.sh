# Attack: Use up all contexts of asynchronous I/O in another sandbox.
# Why it matters: The whole machine has 65,536 of them; databases and virtual machines of the host need them.
# What must hold: The host can still make contexts.
# Needs: probe
# Host: takes-aio
# Leaves: nothing

./probe use aio 0
