# Attack: Use the certificate authority of the broker for another host, and search for its key.
# Why it matters: The holder of the key can read what programs send to any host.
# What must hold: The authority vouches for the secret's host alone, and its key is not in the sandbox.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered authority
