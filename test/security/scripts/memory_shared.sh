# Attack: Hide memory from the limit: memfd, shared mappings, tmpfs.
# Why it matters: Memory that no process owns is the classic way around.
# What must hold: It counts like any other: the run ends out of memory.
# Needs: probe
# Run: --memory 64m
# Expect: phase failed
# Expect: reason oom_killed
# Limits: memory

./probe hoard 3200
