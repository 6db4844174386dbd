# Attack: Use /proc/self/fd/N and other odd places as the working folder.
# Why it matters: This is the second half of CVE-2024-21626: the shell starts outside the root.
# What must hold: Each is a place inside the root, or cannot be entered.
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ "$(pwd -P)" = /workspace ] || breach "started in $(pwd -P)"
for n in $(seq 0 64); do
	cd /proc/self/fd/$n 2>/dev/null || continue
	breach "descriptor $n is the folder $(pwd -P)"
	cd /workspace
done
for place in /proc/1/cwd /proc/1/root /proc/self/root /proc/self/cwd/../..; do
	there=$(cd -P $place 2>/dev/null && pwd -P) || continue
	case "$there" in /workspace | /) ;; *) breach "$place is $there" ;; esac
	[ "$(cd -P $place && stat -c %d:%i .)" = "$(stat -c %d:%i /)" ] || breach "$place is another root"
done
true
exit $failed
