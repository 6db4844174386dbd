# Attack: Read the host's name and its shared memory; leave shared memory for others.
# Why it matters: Both identify the machine and its neighbours.
# What must hold: The name is Belljar's own; shared memory is private.
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ "$(cat /proc/sys/kernel/hostname)" = belljar ] || breach "the hostname is $(cat /proc/sys/kernel/hostname)"
for kind in shm sem msg; do
	[ -e /proc/sysvipc/$kind ] || continue
	[ "$(wc -l </proc/sysvipc/$kind)" = 1 ] || breach "$kind of another sandbox"
done
exit $failed
