# Attack: Ask the proxy for the host's own ports, and ask for them with CONNECT within a connection to an allowed host.
# Why it matters: A proxy that connects anywhere, or believes what it carries, is a way around the rules.
# What must hold: Each is denied.
# Needs: probe
# Host: network
# Leaves: nothing

failed=0
./probe nested "127.0.0.1:$LANE_PORT" "$LANE_BAIT:443" other.test:80 127.0.0.53:1080 || failed=1
./probe addresses "127.0.0.1:$LANE_PORT" "$LANE_BAIT:443" || failed=1
exit $failed
