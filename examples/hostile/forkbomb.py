"""Forks without end; so does every child. The first process stops when a fork is refused; the others never do."""

import os

first = os.getpid()
while True:
    try:
        os.fork()
    except OSError as refused:
        if os.getpid() == first:
            raise SystemExit(f"fork refused: {refused.strerror}")
