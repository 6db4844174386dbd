# Attack: Open /proc/1: its root, folder, descriptors, memory and environment.
# Why it matters: PID 1 started outside and may still hold a reference to the outside.
# What must hold: None of it can be read or entered.
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ -d /proc/1 ] || breach "control: no PID 1"
# The address 0 is unmapped in every process, so the open alone decides.
{ true <"/proc/$$/mem"; } 2>/dev/null || breach "control: a process cannot open its own memory"
{ true </proc/1/mem; } 2>/dev/null && breach "/proc/1/mem can be opened"
for name in environ maps smaps auxv stack syscall io pagemap; do
	{ true </proc/1/$name; } 2>/dev/null || continue
	[ "$(head -c 64 /proc/1/$name 2>/dev/null | wc -c)" = 0 ] || breach "/proc/1/$name can be read"
done
for name in root/. cwd/. fd fdinfo map_files; do
	# gVisor's kernel lists the numbers, and opens none.
	[ $name = fdinfo ] && [ "$LANE_RUNTIME" = gvisor ] && continue
	[ -z "$(ls -A /proc/1/$name 2>/dev/null | head -n 1)" ] || breach "/proc/1/$name can be listed"
done
for name in exe cwd root; do
	target=$(readlink /proc/1/$name 2>/dev/null) && breach "/proc/1/$name leads to $target"
done
true
exit $failed
