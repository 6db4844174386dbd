# Attack: kill(-1, SIGKILL).
# Why it matters: It reaches everything that shares the user.
# What must hold: Only the program itself dies; the run says so and nothing is left.
# Needs: probe
# Expect: phase failed

./probe killall
echo not reached
