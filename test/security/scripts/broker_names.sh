# Attack: Name another host inside a TLS connection that Belljar terminates: in the handshake, in the request, in its target.
# Why it matters: The secret would go to the host that the request names.
# What must hold: No request for another host is answered, and no other host gets the secret.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered names
