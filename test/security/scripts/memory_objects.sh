# Attack: Make the kernel hold memory in many small objects: thousands of sockets, in many processes.
# Why it matters: A limit that counts only pages of programs leaves the kernel's memory open to them.
# What must hold: It counts like any other memory. If the program allocates the rest as private memory, it is killed at its limit.
# Needs: probe
# Run: --memory 64m --pids 200
# Expect: phase failed
# Expect: reason oom_killed
# Expect: exit 137 if oom-process
# Limits: memory
# Not on: docker (one limit covers programs and files in memory; the run has a warning)

exec ./probe hold 64 objects
