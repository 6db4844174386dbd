# Attack: Let a child take all the memory.
# Why it matters: A hog must not take its session with it.
# What must hold: The child dies alone; the shell goes on and the run completes, with a warning. Where a whole sandbox dies
#   of it, as the runtime declares, the run says so.
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
