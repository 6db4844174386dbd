# Attack: Hide memory from the limit: memfd, shared mappings, tmpfs.
# Why it matters: Memory that no process owns is the classic way around.
# What must hold: It counts like any other: the run ends out of memory.
# Run: --memory 64m
# Expect: phase failed
# Expect: reason oom_killed
# Limits: memory

python3 - <<'END'
import mmap, os
held = []
while True:
    fd = os.memfd_create("hoard")
    os.ftruncate(fd, 16 << 20)
    m = mmap.mmap(fd, 16 << 20)
    m.write(b"x" * (16 << 20))
    held.append((fd, m))
    if len(held) > 200:
        print("BREACH: 3200 MiB in shared memory")
        break
END
