"""Request bodies other than JSON."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any, Optional, Union

from .errors import InvalidRequestError

#: The contents of a file: bytes, text (sent as UTF-8), or an object to read bytes from.
Content = Union[bytes, bytearray, memoryview, str, "io.RawIOBase", "io.BufferedIOBase", Any]

PIECE = 256 << 10  # bytes


def utf8(text: str) -> bytes:
    """Returns a text as UTF-8. InvalidRequestError for one with surrogates, such as half an emoji, or a file name that is not UTF-8."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as e:
        raise InvalidRequestError(f"the text cannot be sent as UTF-8: {e}") from None


class Body:
    """A request body: data in memory, or read piece by piece. ``size`` is None if it is unknown."""

    def __init__(self, parts: Iterable[Content]) -> None:
        self._parts: list[Any] = []
        self.size: Optional[int] = 0
        self.fault: Optional[OSError] = None  # the read error of the contents: not a failure of the network
        self._read = 0
        for part in parts:
            if isinstance(part, str):
                part = utf8(part)
            if isinstance(part, (bytearray, memoryview)):
                part = bytes(part)
            if not isinstance(part, bytes) and not hasattr(part, "read"):
                raise TypeError(f"contents are bytes, text or a file open for reading bytes, not {type(part).__name__}")
            size = len(part) if isinstance(part, bytes) else _left(part)
            self.size = None if size is None or self.size is None else self.size + size
            self._parts.append(part)

    @property
    def whole(self) -> Optional[bytes]:
        """The whole body if it is in memory, so that it can be sent again."""
        if all(isinstance(part, bytes) for part in self._parts):
            return b"".join(self._parts)
        return None

    def read(self) -> bytes:
        """Returns the next piece; ``b""`` at the end. InvalidRequestError if the contents are shorter or longer than announced."""
        piece = b""
        while self._parts and not piece:
            part = self._parts[0]
            if isinstance(part, bytes):
                piece = part[:PIECE]
                self._parts[0] = part[PIECE:]
            else:
                try:
                    piece = part.read(PIECE)
                except OSError as e:
                    self.fault = e
                    raise
                if isinstance(piece, str):
                    raise TypeError("the file is open for text: open it with mode 'rb'")
            if not piece:
                del self._parts[0]
        self._read += len(piece)
        if self.size is not None and (self._read > self.size or not piece and self._read < self.size):
            raise InvalidRequestError(f"the contents have {self._read} bytes so far, {self.size} were announced")
        return piece


def gathered(contents: Content) -> bytes:
    """Returns the whole contents as bytes."""
    body = Body([contents])
    whole = body.whole
    return b"".join(iter(body.read, b"")) if whole is None else whole


def _left(file: Any) -> Optional[int]:
    """The number of bytes left in a file; None if it is unknown."""
    try:
        at = file.tell()
        end = file.seek(0, os.SEEK_END)
        file.seek(at)
        return max(int(end) - int(at), 0)
    except (AttributeError, OSError, ValueError, TypeError):
        return None
