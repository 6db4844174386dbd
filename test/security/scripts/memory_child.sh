# Attack: Let a child take all the memory.
# Why it matters: A hog must not take its session with it.
# What must hold: The child dies alone; the shell goes on and the run completes, with a warning.
# Needs: probe
# Run: --memory 64m
# Expect: warning killed for want of memory
# Limits: memory

breach() { echo "BREACH: $*"; failed=1; }
failed=0

./probe memory 512
[ $? = 137 ] || breach "the hog was not killed"
echo still here
exit $failed
