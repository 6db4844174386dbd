# Attack: Send by anything but TCP over IPv4, with rules in force: UDP, QUIC, ICMP, IPv6, raw sockets.
# Why it matters: A proxy cannot check what it does not see.
# What must hold: Each attempt fails at once.
# Needs: probe
# Host: network
# Leaves: nothing

./probe datagrams "$LANE_BAIT:53" "$LANE_BAIT:443" "$LANE_PEER:443" api.test:443 8.8.8.8:53 1.1.1.1:443 '[2606:4700:4700::1111]:443' 224.0.0.251:5353 8.8.8.8:853
