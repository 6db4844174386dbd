# Attack: Allocate memory of every kind in turn, in one program.
# Why it matters: Each kind alone may stay below the limit if they are not counted together.
# What must hold: The program never holds more than 5 % or 8 MiB above its limit, whichever is more, and is killed there. A kind that is not
#   counted would exceed that.
# Needs: probe
# Run: --memory 64m --pids 200
# Expect: phase failed
# Expect: reason oom_killed
# Expect: exit 137 if oom-process
# Limits: memory
# Not on: docker (one limit covers programs and files in memory; the run has a warning)

exec ./probe hold 64 mmap brk shared memfd sysv madvise tree
