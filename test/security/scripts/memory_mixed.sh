# Attack: Take memory of every kind by turns, in one program.
# Why it matters: Each kind for itself may stay below the limit when they are not counted together.
# What must hold: The program never holds more than its limit, and 5 % or 8 MiB of it, whichever is more: a kind that is not counted
#   would bring it above. It is killed there.
# Needs: probe
# Run: --memory 64m --pids 200
# Expect: phase failed
# Expect: reason oom_killed
# Expect: exit 137 if oom-process
# Limits: memory
# Not on: docker (its limit is that of programs and files in memory together, which the run says)

exec ./probe hold 64 mmap brk shared memfd sysv madvise tree
