# Attack: Send an allowed host what never ends: heads of requests and ClientHellos, as fast as possible and a byte at a time.
# Why it matters: What is read before a decision takes memory and descriptors of the host.
# What must hold: The host ends each within seconds, and the next connection works.
# Needs: probe
# Host: network
# Leaves: nothing

./probe slow
