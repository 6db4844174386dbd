# Attack: Make the kernel hold memory: in pipes, in sockets, and in pages of a truncated file.
# Why it matters: Memory that no process has mapped and no file system shows is easily overlooked.
# What must hold: It counts like any other memory. If the program allocates the rest as private memory, it is killed at its limit.
# Needs: probe
# Run: --memory 64m
# Expect: phase completed if oom-process
# Expect: phase failed if oom-sandbox
# Expect: reason oom_killed if oom-sandbox
# Limits: memory
# Not on: docker (one limit covers programs and files in memory; the run has a warning)
# Not on: gvisor (gVisor's own kernel holds this memory, and the sandbox's limit bounds it)

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for kind in splice pipes unix; do
	./probe hold 64 $kind >/tmp/said
	status=$?
	echo "$kind: $(grep -v KiB$ /tmp/said) $(tail -n 1 /tmp/said)"
	[ $status = 137 ] || breach "$kind ended with $status: $(grep BREACH /tmp/said)"
done
exit $failed
