import os
import time

for _ in range(4):
    if os.fork() == 0:
        kept = [bytes([1]) * (1 << 20) for _ in range(100)]
        time.sleep(3600)
raise SystemExit(1 if os.wait()[1] else 0)
