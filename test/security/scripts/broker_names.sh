# Attack: Name another host inside TLS that Belljar ends: in the handshake, in the request, in its target.
# Why it matters: The secret would go to whom the request names.
# What must hold: No request for another host is answered, and no other host gets the secret.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered names
