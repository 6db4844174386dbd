# Attack: Without rules, use what another sandbox has under its rules: its addresses of names, its proxy, its resolver.
# Why it matters: Access that one sandbox has belongs to that sandbox alone.
# What must hold: No server listens at these addresses, and the names do not exist.
# Needs: probe
# Host: network-neighbour

./probe dial tcp:127.64.0.2:80 tcp:127.64.0.2:443 tcp:127.0.0.53:1080 tcp:127.0.0.53:53 "tcp:$LANE_PEER:80" tcp:api.test:80
