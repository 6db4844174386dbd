# Attack: On port 443 of an allowed host, name another server in TLS, or none: whole, in small records, byte by byte, and as plain HTTP.
# Why it matters: One address serves many names; the name in the handshake selects the server.
# What must hold: Only a handshake with the connection's own name is answered.
# Needs: probe
# Host: network
# Leaves: nothing

./probe servers other.test a.wild.test xapi.test api.test.other.test
