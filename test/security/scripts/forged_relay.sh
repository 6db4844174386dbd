# Attack: Be the agent: ask the host for names, addresses and ports that no rule has, in every spelling, with ids that are odd or known.
# Why it matters: Whoever takes over the agent speaks to the host in its name.
# What must hold: The host decides by itself: each is denied, and what is allowed works as before.
# Needs: probe
# Agent: forged
# Host: network

./probe forged asks
