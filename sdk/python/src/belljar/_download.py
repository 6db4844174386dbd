"""Files that downloads make and replace."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Any, Optional


def mode_of(name: str) -> Optional[int]:
    """Returns the mode of the file to replace, None if there is none. Only a regular file is replaced, never a device, pipe or folder."""
    try:
        old = os.stat(name).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old):
        raise FileExistsError(errno.EEXIST, "not a regular file", name)
    return old & 0o777


def create(name: str, mode: Optional[int]) -> Any:
    """Creates a file for writing. It never has more permissions than the given mode."""
    file = open(name, "xb", opener=lambda path, flags: os.open(path, flags, 0o666 if mode is None else mode))
    if mode is not None:
        with suppress(OSError):  # a file system may have no modes
            os.chmod(name, mode)  # the umask has reduced it
    return file
