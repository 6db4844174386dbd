# Attack: Run a program from the workspace, when that was not asked for.
# Why it matters: Where nothing written can be executed, a dropped binary is only a file.
# What must hold: No writable place allows execution.
# Run: --timeout 30

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for place in /workspace /tmp /run /dev/shm; do
	cp /usr/bin/true $place/program || breach "control: cannot write to $place"
	chmod 755 $place/program
	$place/program 2>/dev/null && breach "$place allows execution"
done
/usr/bin/true || breach "control: nothing can be executed"
exit $failed
