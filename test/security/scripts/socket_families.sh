# Attack: Open sockets of every family and every netlink protocol.
# Why it matters: Few programs need them, many kernel exploits do.
# What must hold: Only unix, inet, inet6 and netlink route; rubbish in the upper half of an argument changes nothing.
# Needs: probe
# Leaves: nothing

./probe sockets
