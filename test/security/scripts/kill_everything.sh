# Attack: Call kill(-1, SIGKILL).
# Why it matters: The signal reaches every process of the same user.
# What must hold: Only the program itself dies; the run reports it, and no process is left.
# Needs: probe
# Expect: phase failed
# Expect: exit 137 if native
# Expect: exit 137 if gvisor
# Expect: reason sandbox_died if docker

./probe killall
echo not reached
