# Attack: Look for the host's own ids in the map of the user namespace.
# Why it matters: An identity map makes root inside root outside (found in a sandbox of the same design).
# What must hold: The namespace is not the initial one.

breach() { echo "BREACH: $*"; failed=1; }
failed=0

read -r inside outside count </proc/self/uid_map
[ -n "$count" ] || breach "control: no map"
[ "$count" -lt 4294967295 ] || breach "this is the initial user namespace"
echo "inside $inside, outside $outside, $count ids"
exit $failed
