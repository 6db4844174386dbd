"""Takes memory until something gives."""

import sys

hoard = []
while True:
    hoard.append(bytearray(b"\xff") * (16 << 20))
    print(f"{16 * len(hoard)} MiB", file=sys.stderr, flush=True)
