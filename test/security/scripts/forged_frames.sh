# Attack: Be the agent: break the protocol of the relay and of connections, say more after their end, name another host inside them.
# Why it matters: The host parses what an agent sends, and holds descriptors for it.
# What must hold: That stream alone ends, the host opens another relay, and no other host gets a byte.
# Needs: probe
# Agent: forged
# Host: network

./probe forged frames connections
