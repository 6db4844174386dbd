# Attack: Connect to services of the host: TCP on 127.0.0.1, an abstract and a named Unix socket.
# Why it matters: Databases and daemons trust their loopback; abstract sockets belong to the network namespace, not to a folder.
# What must hold: No service answers; the sandbox's own loopback works.
# Needs: probe
# Host: listener
# Leaves: nothing

./probe dial "tcp:127.0.0.1:$LANE_PORT" "tcp:[::1]:$LANE_PORT" "unix:@belljar-bait-$LANE_PORT" "unix:/tmp/belljar-bait-$LANE_PORT.sock" unix:/run/docker.sock unix:/var/run/docker.sock unix:/run/dbus/system_bus_socket
