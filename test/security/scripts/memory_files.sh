# Attack: Use the room of removed files as memory, before the runtime notices that they are removed.
# Why it matters: Files in memory have room of their own, in addition to the memory of programs. A limit that follows them must not be late.
# What must hold: Whether files exist or were deleted, closed, truncated or punched: the program never holds more than 5 % or 8 MiB above
#   its limit, whichever is more.
# Needs: probe
# Run: --memory 64m --workspace 48m --timeout 5m
# Expect: phase completed if oom-process
# Expect: phase failed if oom-sandbox
# Expect: reason oom_killed if oom-sandbox
# Limits: memory
# Not on: docker (one limit covers programs and files in memory; the run has a warning)

breach() { echo "BREACH: $*"; failed=1; }
failed=0
mkdir /workspace/room

for game in deleted closed cut punched mapped full; do
	./probe reuse 64 $game /workspace/room /tmp
	status=$?
	rm -rf /workspace/room/* /tmp/*
	[ $status = 137 ] || breach "$game ended with $status"
done
./probe alternate 64 >/tmp/said
[ $? = 137 ] || breach "writing and deleting by turns: $(grep BREACH /tmp/said)"
exit $failed
