# Attack: Leave the root: chroot, pivot_root, chains of dots, files by handle.
# Why it matters: If the old root is still attached anywhere, one of these ways finds it.
# What must hold: No folder is above the root, and no mount shows the root of a disk of the host.
# Needs: probe
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

cd / && cd ../../../../../../.. && [ "$(pwd -P)" = / ] || breach "above the root is $(pwd -P)"
[ "$(stat -c %d:%i /)" = "$(stat -c %d:%i /..)" ] || breach "/.. is another folder"
if [ "$LANE_IMAGE" = host ]; then
	for place in /home /root /boot /srv /var/lib /etc/shadow /usr/../root /.dockerenv; do
		[ -e "$place" ] && breach "$place is there"
	done
fi
if [ "$LANE_RUNTIME" = native ]; then
	grep -q ' - tmpfs ' /proc/self/mountinfo || breach "control: no tmpfs"
	awk '$5 == "/" && !/ - tmpfs /' /proc/self/mountinfo | grep -q . && breach "the root is a disk of the host"
fi
cd /workspace && ./probe handles || failed=1
exit $failed
