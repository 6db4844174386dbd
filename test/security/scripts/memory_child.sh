# Attack: Allocate all memory in a child.
# Why it matters: A child that uses too much must not end its session.
# What must hold: Only the child dies; the shell continues and the run completes, with a warning. If the runtime declares that the whole
#   sandbox dies, the run reports that.
# Needs: probe
# Run: --memory 64m
# Expect: phase completed if oom-process
# Expect: warning killed for lack of memory if oom-process
# Expect: phase failed if oom-sandbox
# Expect: reason oom_killed if oom-sandbox
# Limits: memory

breach() { echo "BREACH: $*"; failed=1; }
failed=0

./probe memory 2048
[ $? = 137 ] || breach "the hog was not killed"
echo still here
exit $failed
