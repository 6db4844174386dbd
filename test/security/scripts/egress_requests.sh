# Attack: On 80 of an allowed host, ask for another host: directly, pipelined, in a second header, smuggled in a body, by an upgrade.
# Why it matters: A shared server answers for whom the request names, and two readers may read it differently.
# What must hold: No request for another host arrives.
# Needs: probe
# Host: network
# Leaves: nothing

./probe requests other.test a.wild.test
