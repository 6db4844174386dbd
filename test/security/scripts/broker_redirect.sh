# Attack: Follow the redirect of a host with a brokered secret to another host.
# Why it matters: Clients repeat headers after a redirect, and the attacker chooses its target.
# What must hold: The other host receives no secret.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered redirect
