# Attack: Replace the agent: request names, addresses and ports that no rule allows, in every spelling, with odd or used ids.
# Why it matters: A program that takes over the agent speaks to the host in its name.
# What must hold: The host checks the rules itself: each request is denied, and what is allowed still works.
# Needs: probe
# Agent: forged
# Host: network

./probe forged asks
