"""Allocates memory until it fails: 1 GiB at most, for hosts without a limit."""

import sys

hoard = []
while len(hoard) < 64:
    hoard.append(bytearray(b"\xff") * (16 << 20))
    print(f"{16 * len(hoard)} MiB", file=sys.stderr, flush=True)
print("no memory limit here: allocated 1 GiB")
