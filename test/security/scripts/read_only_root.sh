# Attack: Write to every place.
# Why it matters: The host and all other sandboxes share what the image holds.
# What must hold: The only writable folders are the workspace, /tmp, /run and /dev/shm.
# Needs: probe
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

touch /workspace/control || breach "control: the workspace is not writable"
./probe writable / >writable || failed=1
while read -r place; do
	case "$place" in
	/workspace | /workspace/* | /tmp | /tmp/* | /run | /run/* | /dev/shm | /dev/shm/*) ;;
	*) breach "$place is writable" ;;
	esac
done <writable
for file in /bin/sh /usr/bin/sh /etc/passwd /etc/hosts /etc/ld.so.preload /usr/lib/belljar /lib/x /belljar /dev/x /proc/x /var/x; do
	(echo x >>"$file") 2>/dev/null && breach "$file was written"
done
true
exit $failed
