# Attack: Search for the host's own ids in the map of the user namespace.
# Why it matters: An identity map makes root inside root outside (found in a sandbox of the same design).
# What must hold: The namespace is not the initial one. A Docker engine may have no other; then no person of the host has the id.
# Not on: gvisor (the map belongs to gVisor's own kernel; TestHostIDs checks from outside)
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

read -r inside outside count </proc/self/uid_map
[ -n "$count" ] || breach "control: no map"
if [ "$LANE_RUNTIME" = docker ] && [ "$count" = 4294967295 ]; then
	[ "$(id -u)" -ge 100000 ] || breach "user $(id -u) of the host"
	[ "$(id -g)" -ge 100000 ] || breach "group $(id -g) of the host"
else
	[ "$count" -lt 4294967295 ] || breach "this is the initial user namespace"
fi
echo "inside $inside, outside $outside, $count ids"
exit $failed
