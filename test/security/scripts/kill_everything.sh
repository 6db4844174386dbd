# Attack: Call kill(-1, SIGKILL).
# Why it matters: The signal reaches every process of the same user.
# What must hold: Only the program itself dies; the run reports it, and no process is left. If the agent's helpers have the same user, they
#   die, too, and the run reports that.
# Needs: probe
# Expect: phase failed
# Expect: exit 137 if agent-user
# Expect: reason signaled if agent-user
# Expect: reason sandbox_died if docker
# Expect: reason sandbox_died if shared

./probe killall
echo not reached
