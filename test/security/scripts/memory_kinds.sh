# Attack: Take more memory than allowed, of each kind that there is.
# Why it matters: A limit that overlooks one kind of memory is none; nor is one that lets a program have the room that is meant for
#   files.
# What must hold: The program never holds more than its limit, and 5 % or 8 MiB of it, whichever is more; it is killed there.
#   Where a whole sandbox dies of it the first kind is the only one; memory_mixed has them all.
# Needs: probe
# Run: --memory 64m --pids 200 --nofile 1024
# Expect: phase completed if oom-process
# Expect: phase failed if oom-sandbox
# Expect: reason oom_killed if oom-sandbox
# Limits: memory
# Not on: docker (its limit is that of programs and files in memory together, which the run says)

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
