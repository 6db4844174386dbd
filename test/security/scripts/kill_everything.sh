# Attack: Call kill(-1, SIGKILL).
# Why it matters: The signal reaches every process of the same user.
# What must hold: Only the program itself dies; the run reports it, and no process is left.
# Needs: probe
# Expect: phase failed

./probe killall
echo not reached
