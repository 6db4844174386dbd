# Attack: Follow the redirect of a host with a brokered secret to another host.
# Why it matters: Clients take headers along, and a redirect names whom the attacker wants.
# What must hold: The other host gets no secret.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered redirect
