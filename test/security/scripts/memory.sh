# Attack: Take more memory than allowed.
# Why it matters: Without a limit the kernel picks a victim on the host.
# What must hold: The process is killed and the run says out of memory.
# Needs: probe
# Run: --memory 64m
# Expect: phase failed
# Expect: reason oom_killed
# Expect: exit 137 if oom-process
# Limits: memory

./probe memory 2048
