# Attack: Search for files of the host: homes, keys, logs, state of other programs.
# Why it matters: These files are what an attacker looks for.
# What must hold: None is visible.
# Host: bait
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

# An image may have such folders of its own; where the image is the host's, they would be the host's.
[ "$LANE_IMAGE" = host ] && for place in /root /home /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh /etc/machine-id /var/lib /var/log /var/spool /boot /srv /media; do
	[ -e $place ] && breach "$place is there"
done
[ "$LANE_IMAGE" != host ] || [ -z "$(ls -A /opt /mnt 2>/dev/null | grep -v ':$' | tr -d '\n')" ] || breach "/opt or /mnt is not empty"
[ -r /bin/sh ] || breach "control: no image"
# What is deep in /usr is read-only, and the image's.
echo control >belljar-bait
find / -path '/usr/*/*' -prune -o -name '*belljar-bait*' -print >found 2>/dev/null
grep -qx "$PWD/belljar-bait" found || breach "control: the search finds nothing"
grep -vx "$PWD/belljar-bait" found && breach "a file of the host was found"
rm belljar-bait found
find / -path '/usr/*/*' -prune -o \( -name '*.sock' -o -type s \) -print 2>/dev/null | grep . && breach "a socket of the host was found"
cat /etc/passwd /etc/hosts /etc/resolv.conf /etc/hostname /proc/self/mountinfo /proc/cmdline 2>/dev/null
exit $failed
