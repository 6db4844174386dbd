# Attack: On port 80 of an allowed host, request another host: directly, pipelined, in a second header, smuggled in a body, by an upgrade.
# Why it matters: A shared server answers for the host that the request names, and two parsers may read different names.
# What must hold: No request for another host arrives.
# Needs: probe
# Host: network
# Leaves: nothing

./probe requests other.test a.wild.test
