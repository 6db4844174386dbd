# Attack: Replace the agent: request thousands of names and connections, read no answer, accept no connection, use one id for all.
# Why it matters: Each could hold a descriptor, a lookup or memory of the host.
# What must hold: The host's descriptors return to their earlier number, and the next connection works.
# Needs: probe
# Agent: forged
# Host: network

./probe forged flood
