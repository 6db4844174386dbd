# Attack: Leave by anything but TCP over IPv4, with rules in force: UDP, QUIC, ICMP, IPv6, raw sockets.
# Why it matters: What a proxy does not see, it does not check.
# What must hold: All of it fails at once.
# Needs: probe
# Host: network
# Leaves: nothing

./probe datagrams "$LANE_BAIT:53" "$LANE_BAIT:443" "$LANE_PEER:443" api.test:443 8.8.8.8:53 1.1.1.1:443 '[2606:4700:4700::1111]:443' 224.0.0.251:5353 8.8.8.8:853
