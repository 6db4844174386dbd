# Attack: Fill every writable place.
# Why it matters: A full disk stops the machine and all of its users.
# What must hold: Each place returns ENOSPC at its cap, without an out-of-memory kill; nothing is written to a disk of the host.
# Needs: probe
# Run: --workspace 32m --memory 64m
# Host: disk

breach() { echo "BREACH: $*"; failed=1; }
failed=0

places=$(awk '{ print $2 }' /proc/self/mounts | sort -u)
for place in $places / /etc /usr /var /var/tmp /opt /mnt; do
	[ -d "$place" ] && [ -w "$place" ] && echo "$place is writable"
done
./probe fill 32 /workspace || failed=1
./probe fill 64 /tmp /run /dev/shm || failed=1
for place in $places; do
	case "$place" in /workspace | /tmp | /run | /dev/shm) continue ;; esac
	[ -d "$place" ] || continue
	./probe fill 1 "$place" || breach "$place is not in the list"
done
exit $failed
