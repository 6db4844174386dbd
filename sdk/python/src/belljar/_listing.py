"""A folder's entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from . import types

    _Entries = List[types.FileEntry]
else:
    _Entries = list


class Listing(_Entries):
    """The entries of a folder. ``truncated`` states whether some are missing, beyond ``limit``."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer["entries"])
        self.truncated = bool(answer.get("truncated"))
