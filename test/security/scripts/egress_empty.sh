# Attack: Reach what the request lists but not the server, and what the server lists but not the request.
# Why it matters: Two lists with nothing in common are an empty list, and an empty list must be nothing, not everything.
# What must hold: No name has an address, nothing connects, and the resolver outside is not asked.
# Needs: probe
# Host: network-empty

./probe dial tcp:api.test:80 tcp:pinned.test:443 tcp:a.wild.test:443 tcp:127.64.0.2:80 "tcp:$LANE_PEER:80" "tcp:$LANE_BAIT:80"
