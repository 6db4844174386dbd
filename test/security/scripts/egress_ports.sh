# Attack: Connect to an allowed host and an allowed address on ports that the server does not list, by socket and through the proxy.
# Why it matters: A host that serves a website may serve mail, a shell or a database as well.
# What must hold: Each is denied at once.
# Needs: probe
# Host: network
# Leaves: nothing

./probe addresses api.test:22 api.test:25 api.test:853 api.test:8080 api.test:65535 "$LANE_PEER:22" "$LANE_PEER:8080" "$LANE_PEER:1"
