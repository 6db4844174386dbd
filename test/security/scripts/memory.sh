# Attack: Allocate more memory than allowed.
# Why it matters: Without a limit the kernel kills a program of the host.
# What must hold: The kernel kills the process, and the run reports that it was out of memory.
# Needs: probe
# Run: --memory 64m
# Expect: phase failed
# Expect: reason oom_killed
# Expect: exit 137 if oom-process
# Limits: memory

./probe memory 2048
