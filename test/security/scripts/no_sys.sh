# Attack: Search for /sys and for any cgroup file system.
# Why it matters: release_agent (CVE-2022-0492) and uevent helpers run programs on the host.
# What must hold: /sys is empty or absent, and no cgroup file system is visible.
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ -z "$(ls -A /sys 2>/dev/null)" ] || breach "/sys is not empty"
# An engine may have mounted some of them and then put something empty in front.
grep -E "^[^ ]+ [^ ]+ (sysfs|cgroup2?|debugfs|tracefs|securityfs|bpf|configfs|efivarfs|binfmt_misc) " /proc/self/mounts | while read -r _ place kind _; do
	[ "$LANE_RUNTIME" != docker ] || [ -n "$(ls -A "$place" 2>/dev/null)" ] || continue
	echo "BREACH: $kind is mounted at $place"
done | grep . && failed=1
find / -path '/usr/*/*' -prune -o \( -name release_agent -o -name uevent_helper -o -name cgroup.procs \) -print 2>/dev/null | grep . && breach "these were found"
while IFS=: read -r _ controllers path; do
	case "$path" in *belljar* | *..*) breach "the cgroup path $path tells about the host" ;; esac
done </proc/self/cgroup
true
exit $failed
