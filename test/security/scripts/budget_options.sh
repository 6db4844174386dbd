# Attack: Take all flow labels of IPv6 in another sandbox, and have sockets keep keys of signed connections, or use TLS of the kernel.
# Why it matters: There are 4096 labels for the whole machine, without a setting; the keys are kernel memory charged to nobody.
# What must hold: Each is refused, and programs of the host without privileges have their labels.
# Needs: probe
# Host: takes-labels
# Leaves: nothing

./probe options
