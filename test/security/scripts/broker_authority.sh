# Attack: Use the authority that ends TLS for another host, and look for its key.
# Why it matters: Whoever has it reads what programs send to any host.
# What must hold: It is for the secret's host alone, and its key is not in the sandbox.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered authority
