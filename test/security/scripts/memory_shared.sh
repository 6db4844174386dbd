# Attack: Hide memory from the limit: memfd, shared mappings, tmpfs.
# Why it matters: Memory without an owning process is the classic way around a limit.
# What must hold: It counts like any other memory: the run ends out of memory.
# Needs: probe
# Run: --memory 64m
# Expect: phase failed
# Expect: reason oom_killed
# Limits: memory

./probe hoard 3200
