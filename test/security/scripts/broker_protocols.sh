# Attack: Use HTTP/2, WebSocket and CONNECT with a host that has a brokered secret.
# Why it matters: A protocol that Belljar cannot inspect could carry the secret back.
# What must hold: No such connection begins.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered protocols
