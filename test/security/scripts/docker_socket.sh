# Attack: Search for an engine's socket, under every name and in every mount.
# Why it matters: A program that can talk to the engine is root on its host.
# What must hold: No socket of the host is in any file system.
# Host: engine
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for place in /run/docker.sock /var/run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock /var/run/crio/crio.sock \
	/run/user/*/docker.sock "$LANE_SOCKET"; do
	[ -z "$place" ] || [ ! -e "$place" ] || breach "$place is there"
done
find / -path '/usr/*/*' -prune -o -type s -print 2>/dev/null | grep . && breach "these sockets are there"
grep -E 'docker\.sock|containerd\.sock' /proc/self/mountinfo /proc/net/unix 2>/dev/null && breach "an engine's socket is known"
[ -e /proc/self/mountinfo ] || [ -e /proc/self/mounts ] || breach "control: no mounts can be read"
exit $failed
