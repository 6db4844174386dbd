# Attack: Provide an image in which /dev, /proc, /sys, /etc, /tmp, /run and the workspace are absolute links.
# Why it matters: A runtime that prepares a root by path follows them and writes to the host, as root (CVE-2026-41579, CVE-2021-30465).
# What must hold: Each place is the sandbox's own, and no file appears on the host.
# Image: absolute-links
# Host: elsewhere
# Needs: probe

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for place in /dev /proc /tmp /run /workspace; do
	[ -L $place ] && breach "$place is a link"
	[ -d $place ] || breach "$place is not there"
done
[ -c /dev/null ] || breach "/dev/null is no device"
[ -d /proc/self ] || breach "/proc is none"
echo here >/workspace/file && [ "$(cat /workspace/file)" = here ] || breach "the workspace cannot be written to"
for place in /etc /var /mnt /home /root; do
	(echo x >$place/belljar-was-here) 2>/dev/null && case "$(cd -P $place && pwd)" in /tmp* | /run* | /workspace*) ;; *) breach "$place was written" ;; esac
done
./probe remount || failed=1
exit $failed
