# Attack: Provide an image with set-user-id programs, and one that carries capabilities.
# Why it matters: Files that root unpacks keep these marks, for every user of the host.
# What must hold: The marks are removed or have no effect: no program becomes root or gets a capability.
# Image: set-user-id
# Needs: probe

breach() { echo "BREACH: $*"; failed=1; }
failed=0

# Both are the probe: the applets of busybox drop such rights before they do anything.
for program in /bin/su /bin/capable; do
	[ -x $program ] || breach "control: $program is not there"
	$program identity "$(id -u)" "$(id -g)" || breach "$program gives rights"
done
if [ "$LANE_RUNTIME" = native ]; then
	[ -u /bin/su ] && breach "su has its mark"
	[ -g /bin/su ] && breach "su has its mark for groups"
fi
cp probe own && chmod 6755 own && ./own identity "$(id -u)" "$(id -g)" || failed=1
exit $failed
