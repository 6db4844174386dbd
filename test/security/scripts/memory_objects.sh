# Attack: Have the kernel hold memory in many small objects: thousands of sockets, in many processes.
# Why it matters: A limit that counts pages of programs alone lets them take the kernel's.
# What must hold: It counts like any other. With the rest taken as private memory the program is killed at its limit.
# Needs: probe
# Run: --memory 64m --pids 200
# Expect: phase failed
# Expect: reason oom_killed
# Expect: exit 137 if oom-process
# Limits: memory
# Not on: docker (its limit is that of programs and files in memory together, which the run says)

exec ./probe hold 64 objects
