# Attack: Use up all IPv6 flow labels in another sandbox, keep keys of signed connections on sockets, and use kernel TLS.
# Why it matters: The whole machine has 4,096 labels, and no setting changes that; no cgroup is charged for the keys.
# What must hold: Each is refused, and programs of the host without privileges can still get labels.
# Needs: probe
# Host: takes-labels
# Leaves: nothing

./probe options
