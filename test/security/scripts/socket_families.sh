# Attack: Open sockets of every family and every netlink protocol.
# Why it matters: Few programs need them, and many kernel exploits do.
# What must hold: Only unix, inet, inet6 and netlink route open; random upper halves of an argument make no difference.
# Needs: probe
# Leaves: nothing

./probe sockets
