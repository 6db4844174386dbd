# Attack: Take all contexts of asynchronous I/O in another sandbox.
# Why it matters: There are 65,536 for the whole machine; databases and virtual machines of the host need them.
# What must hold: The host has its own.
# Needs: probe
# Host: takes-aio
# Leaves: nothing

./probe use aio 0
