# Attack: Take the room of files that are gone as memory, before anything takes notice that they are gone.
# Why it matters: Files in memory have room of their own, beside what a program may hold. A limit that follows them must not be late.
# What must hold: Whether the files are there, were deleted, closed, cut or punched: the program never holds more than its limit, and
#   5 % or 8 MiB of it, whichever is more.
# Needs: probe
# Run: --memory 64m --workspace 48m --timeout 5m
# Expect: phase completed if oom-process
# Expect: phase failed if oom-sandbox
# Expect: reason oom_killed if oom-sandbox
# Limits: memory
# Not on: docker (its limit is that of programs and files in memory together, which the run says)

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
