# Attack: Reach what the request allows and the server does not, and what the server allows and the request does not.
# Why it matters: Two lists without a common entry must allow nothing, not everything.
# What must hold: No name has an address, no connection opens, and the outside resolver receives no query.
# Needs: probe
# Host: network-empty

./probe dial tcp:api.test:80 tcp:pinned.test:443 tcp:a.wild.test:443 tcp:127.64.0.2:80 "tcp:$LANE_PEER:80" "tcp:$LANE_BAIT:80"
