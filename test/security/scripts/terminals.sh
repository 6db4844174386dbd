# Attack: Open terminals without end.
# Why it matters: There are 4096 for the whole machine, whoever opens them.
# What must hold: 64 at most; gVisor has its own. An engine has no such cap: there the kernel keeps the last 1024 for its host,
#   and 64 is as many as we take.
# Needs: probe
# Leaves: nothing
case "$LANE_RUNTIME" in
native) ./probe terminals 64 refused ;;
*) ./probe terminals 64 ;;
esac
