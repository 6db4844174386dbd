# Attack: Run a program from the workspace, without a request that allows it.
# Why it matters: If no written file can be executed, a dropped binary is harmless.
# What must hold: No writable place allows execution.
# Run: --timeout 300

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for program in /usr/bin/true /bin/true; do [ -x $program ] && break; done
for place in /workspace /tmp /run /dev/shm; do
	cp $program $place/true || breach "control: cannot write to $place"
	chmod 755 $place/true
	$place/true 2>/dev/null && breach "$place allows execution"
done
$program || breach "control: nothing can be executed"
exit $failed
