# Attack: Connect to addresses that no rule allows, by socket and through the proxy: another machine, the host's loopback, metadata.
# Why it matters: An address needs no name, and services on the host trust their loopback.
# What must hold: Each is denied at once, on every port.
# Needs: probe
# Host: network
# Leaves: nothing

./probe addresses "$LANE_BAIT:80" "$LANE_BAIT:443" "$LANE_BAIT:53" "$LANE_BAIT:$LANE_PORT" "127.0.0.1:$LANE_PORT" \
	"[::ffff:$LANE_BAIT]:80" "[::ffff:127.0.0.1]:$LANE_PORT" "[::1]:$LANE_PORT" "0.0.0.0:$LANE_PORT" "[64:ff9b::7f00:1]:$LANE_PORT" \
	169.254.169.254:80 10.0.0.1:80 1.1.1.1:443 8.8.8.8:853 "[fd00:ec2::254]:80"
