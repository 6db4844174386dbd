# Attack: Be the agent: ask for thousands of names and connections, read no answer, take no connection, use one id for all.
# Why it matters: Each could keep a descriptor, a lookup or memory of the host.
# What must hold: The host's descriptors are as before, and the next connection works.
# Needs: probe
# Agent: forged
# Host: network

./probe forged flood
