# Attack: Trace, read, reprioritise and signal PID 1 and every process of another user.
# Why it matters: The host relies on what the agent reports about a run.
# What must hold: Each call is refused; the run ends as usual.
# Needs: probe
# Leaves: nothing

./probe agent
