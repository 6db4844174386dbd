# Attack: Go through /proc/1: its root, folder, descriptors, memory and environment.
# Why it matters: PID 1 was started outside and may still hold something of the outside.
# What must hold: Nothing of it can be read or entered.
# Lanes: root rootless

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ -d /proc/1 ] || breach "control: no PID 1"
for name in root/. cwd/. fd environ mem maps smaps auxv stack syscall io pagemap; do
	(cat "/proc/1/$name" || ls "/proc/1/$name") >/dev/null 2>&1 </dev/null && [ -n "$(cat /proc/1/$name 2>/dev/null | tr -d '\0'; ls /proc/1/$name 2>/dev/null)" ] && breach "/proc/1/$name can be read"
done
for name in exe cwd root; do
	target=$(readlink /proc/1/$name 2>/dev/null) && breach "/proc/1/$name leads to $target"
done
true
exit $failed
