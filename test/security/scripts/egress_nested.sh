# Attack: Ask the proxy for the host's own ports, directly and with CONNECT inside a connection to an allowed host.
# Why it matters: A proxy that connects to any address, or trusts what it carries, bypasses the rules.
# What must hold: Each is denied.
# Needs: probe
# Host: network
# Leaves: nothing

failed=0
./probe nested "127.0.0.1:$LANE_PORT" "$LANE_BAIT:443" other.test:80 127.0.0.53:1080 || failed=1
./probe addresses "127.0.0.1:$LANE_PORT" "$LANE_BAIT:443" || failed=1
exit $failed
