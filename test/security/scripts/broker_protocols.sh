# Attack: Speak HTTP/2, WebSocket, CONNECT to a host with a brokered secret.
# Why it matters: What cannot be looked at could carry the secret back.
# What must hold: None of them begins.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered protocols
