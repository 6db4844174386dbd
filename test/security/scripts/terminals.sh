# Attack: Open terminals without end.
# Why it matters: The whole machine has 4,096 terminals, for all users.
# What must hold: A sandbox gets at most 64; gVisor has its own. An engine has no such cap: there the kernel reserves the last 1,024 for its
#   host, and the script takes only 64.
# Needs: probe
# Leaves: nothing
case "$LANE_RUNTIME" in
native) ./probe terminals 64 refused ;;
*) ./probe terminals 64 ;;
esac
