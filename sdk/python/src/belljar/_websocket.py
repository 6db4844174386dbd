"""The client's side of WebSockets (RFC 6455), without I/O."""

from __future__ import annotations

import os
from binascii import b2a_base64
from typing import NamedTuple, Optional

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MAX_MESSAGE = 8 << 20  # bytes


class Violation(Exception):
    """The data violates the protocol."""


class Message(NamedTuple):
    kind: int
    data: bytes

    @property
    def code(self) -> int:
        """The status code of a close message; 1005 if it has none."""
        return int.from_bytes(self.data[:2], "big") if len(self.data) >= 2 else 1005

    @property
    def reason(self) -> str:
        return self.data[2:].decode("utf-8", "replace")


def new_key() -> str:
    """Returns a key for the server to confirm."""
    return b2a_base64(os.urandom(16), newline=False).decode()


def accepted(key: str) -> str:
    """Returns the server's expected confirmation of a key."""
    from hashlib import sha1  # slow to load

    return b2a_base64(sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest(), newline=False).decode()


def encode(kind: int, data: bytes) -> bytes:
    """Returns a message in one frame, masked, as required of clients."""
    n = len(data)
    head = bytes([0x80 | kind])
    if n < 126:
        head += bytes([0x80 | n])
    elif n < 1 << 16:
        head += bytes([0x80 | 126]) + n.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + n.to_bytes(8, "big")
    mask = os.urandom(4)
    return head + mask + _masked(data, mask)


def _masked(data: bytes, mask: bytes) -> bytes:
    n = len(data)
    if n == 0:
        return b""
    long = (mask * (n // 4 + 1))[:n]
    return (int.from_bytes(data, "big") ^ int.from_bytes(long, "big")).to_bytes(n, "big")


class Decoder:
    """Parses messages from data."""

    def __init__(self, first: bytes = b"") -> None:
        self._buf = bytearray(first)
        self._kind = 0  # of the message that is incomplete so far
        self._parts = bytearray()

    def feed(self, data: bytes) -> None:
        self._buf += data

    def next(self) -> Optional[Message]:
        """Returns the next message; None if it needs more data first."""
        while True:
            frame = self._frame()
            if frame is None:
                return None
            kind, final, data = frame
            if kind >= 8:
                if not final or len(data) > 125:
                    raise Violation("a control frame is in pieces, or too long")
                return Message(kind, data)
            if (kind == 0) != bool(self._kind):
                raise Violation("a message is broken into by another")
            self._kind = self._kind or kind
            self._parts += data
            if len(self._parts) > MAX_MESSAGE:
                raise Violation("a message is too long")
            if final:
                message = Message(self._kind, bytes(self._parts))
                self._kind = 0
                self._parts.clear()
                return message

    def _frame(self) -> Optional[tuple[int, bool, bytes]]:
        buf = self._buf
        if len(buf) < 2:
            return None
        kind, final, n, at = buf[0] & 0x0F, bool(buf[0] & 0x80), buf[1] & 0x7F, 2
        if buf[0] & 0x70 or buf[1] & 0x80 or kind not in (0, TEXT, BINARY, CLOSE, PING, PONG):
            raise Violation("a frame is of no kind that was agreed on")
        if n >= 126:
            wide = 2 if n == 126 else 8
            if len(buf) < at + wide:
                return None
            n = int.from_bytes(buf[at : at + wide], "big")
            at += wide
        if n > MAX_MESSAGE:
            raise Violation("a message is too long")
        if len(buf) < at + n:
            return None
        data = bytes(buf[at : at + n])
        del buf[: at + n]
        return kind, final, data
