# Attack: Send an allowed host messages without end: request heads and ClientHellos, as fast as possible and a byte at a time.
# Why it matters: Data that is read before a decision takes memory and descriptors of the host.
# What must hold: The host closes each connection within seconds, and the next connection works.
# Needs: probe
# Host: network
# Leaves: nothing

./probe slow
