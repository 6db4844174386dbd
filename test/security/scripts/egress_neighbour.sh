# Attack: Without rules, use what another sandbox has by its own: its addresses of names, its proxy, its resolver.
# Why it matters: A way that one sandbox was given belongs to it alone.
# What must hold: Nothing listens at these addresses, and its names do not exist.
# Needs: probe
# Host: network-neighbour

./probe dial tcp:127.64.0.2:80 tcp:127.64.0.2:443 tcp:127.0.0.53:1080 tcp:127.0.0.53:53 "tcp:$LANE_PEER:80" tcp:api.test:80
