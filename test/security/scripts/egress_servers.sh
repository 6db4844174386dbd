# Attack: On 443 of an allowed host, name another server in TLS, or none; whole, in small records, byte by byte, and as plain HTTP.
# Why it matters: One address serves many names; the name in the handshake decides who answers.
# What must hold: Only the name of the connection is answered.
# Needs: probe
# Host: network
# Leaves: nothing

./probe servers other.test a.wild.test xapi.test api.test.other.test
