# Attack: Replace the agent: break the protocol of the relay and of connections, send data after their end, name another host inside them.
# Why it matters: The host parses what an agent sends, and holds descriptors for it.
# What must hold: Only that stream ends, the host opens another relay, and no other host receives a byte.
# Needs: probe
# Agent: forged
# Host: network

./probe forged frames connections
