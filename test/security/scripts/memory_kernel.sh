# Attack: Have the kernel hold memory: in pipes, in sockets, and in pages of a file that has been cut.
# Why it matters: What no process has mapped and no file system shows is easily overlooked.
# What must hold: It counts like any other. What the kernel refuses to hold is not held either; with the rest taken as private memory
#   the program is killed at its limit.
# Needs: probe
# Run: --memory 64m
# Expect: phase completed if oom-process
# Expect: phase failed if oom-sandbox
# Expect: reason oom_killed if oom-sandbox
# Limits: memory
# Not on: docker (its limit is that of programs and files in memory together, which the run says)
# Not on: gvisor (it is memory of its own kernel, which is bounded with the sandbox)

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for kind in splice pipes unix; do
	./probe hold 64 $kind >/tmp/said
	status=$?
	echo "$kind: $(grep -v KiB$ /tmp/said) $(tail -n 1 /tmp/said)"
	[ $status = 137 ] || breach "$kind ended with $status: $(grep BREACH /tmp/said)"
done
exit $failed
