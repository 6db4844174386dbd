# Attack: Allocate more memory than allowed, of each kind.
# Why it matters: A limit that overlooks one kind of memory has no effect, and the room of files must not become memory of programs.
# What must hold: The program never holds more than 5 % or 8 MiB above its limit, whichever is more, and is killed there. Where the whole
#   sandbox dies, only the first kind is tried; memory_mixed tries all.
# Needs: probe
# Run: --memory 64m --pids 200 --nofile 1024
# Expect: phase completed if oom-process
# Expect: phase failed if oom-sandbox
# Expect: reason oom_killed if oom-sandbox
# Limits: memory
# Not on: docker (one limit covers programs and files in memory; the run has a warning)

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for kind in mmap brk shared memfd sysv huge madvise tree; do
	./probe hold 64 $kind >"$kind"
	status=$?
	tail -n 2 "$kind"
	[ $status = 137 ] || breach "$kind ended with $status: $(grep BREACH "$kind")"
done
./probe burst 64
[ $? = 137 ] || breach "a burst of several threads was not killed"
exit $failed
