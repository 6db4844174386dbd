# Attack: Provide an image in which /dev, /proc, /sys, /etc, /tmp, /run and the workspace are relative links, up and out.
# Why it matters: A check of prefixes does not find a link that consists of dots.
# What must hold: Each place is the sandbox's own, and no file appears on the host.
# Image: relative-links
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
