"""HTTP/1.1 without input and output: it encodes requests and parses answers.

Both clients are based on it; their connections only transfer bytes. It uses only the standard library, since
importing an HTTP library takes longer than starting a belljar and running a first command in it.
"""

from __future__ import annotations

from typing import Optional

MAX_HEAD = 256 << 10  # bytes of an answer's head, and of a line of a chunk


class Garbled(Exception):
    """The data is not valid HTTP."""


class Head:
    """The head of an answer, with header names in lower case."""

    __slots__ = ("status", "reason", "headers", "close")

    def __init__(self, raw: bytes) -> None:
        lines = raw.decode("latin-1").split("\r\n")
        first = lines[0].split(" ", 2)
        if len(first) < 2 or not first[0].startswith("HTTP/1.") or len(first[1]) != 3 or not first[1].isdecimal():
            raise Garbled("the answer is not HTTP")
        self.status = int(first[1])
        self.reason = first[2] if len(first) > 2 else ""
        self.headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise Garbled("the answer has a header that is none")
            name, value = name.lower(), value.strip()
            self.headers[name] = self.headers[name] + ", " + value if name in self.headers else value
        options = self.headers.get("connection", "").lower()
        self.close = "close" in options or first[0] == "HTTP/1.0" and "keep-alive" not in options

    def get(self, name: str) -> str:
        return self.headers.get(name, "")

    @property
    def mime(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def request(method: str, target: str, headers: list[tuple[str, str]]) -> bytes:
    """Returns the head of a request."""
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Answer:
    """A parser for one answer.

    Feed it the connection's data (``b""`` for its end) until :meth:`head` returns the head, and then
    until :meth:`piece` has returned ``b""``. :attr:`rest` has the data after this answer.
    """

    def __init__(self, method: str) -> None:
        self._method = method
        self._buf = bytearray()
        self._over = False  # the connection has ended
        self._head: Optional[Head] = None
        self._left: Optional[int] = 0  # bytes left of the body, or of the current chunk; None means until the connection's end
        self._chunked = False
        self._trailer = False
        self.complete = False
        self.sent = True  # the whole request, so that another one can follow

    def feed(self, data: bytes) -> None:
        if data:
            self._buf += data
        else:
            self._over = True

    @property
    def rest(self) -> bytes:
        """The data after this answer."""
        return bytes(self._buf)

    @property
    def fresh(self) -> bool:
        """Whether no byte of an answer has arrived."""
        return self._head is None and not self._buf

    def interim(self) -> Optional[int]:
        """Returns the status of an interim answer (1xx but 101), and then drops that answer."""
        head = self._peek()
        if head is None or head[0].status // 100 != 1 or head[0].status == 101:
            return None
        del self._buf[: head[1]]
        return head[0].status

    def _peek(self) -> Optional[tuple[Head, int]]:
        end = self._buf.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buf) > MAX_HEAD:
                raise Garbled("the answer's head is too long")
            if self._over:
                raise EOFError("the connection ended before the answer")
            return None
        return Head(bytes(self._buf[:end])), end + 4

    def head(self) -> Optional[Head]:
        """Returns the head, once it has arrived."""
        if self._head is not None:
            return self._head
        while self.interim() is not None:
            pass
        found = self._peek()
        if found is None:
            return None
        head, end = found
        del self._buf[:end]
        self._head = head
        if self._method == "HEAD" or head.status in (101, 204, 304):
            self.complete = True
        elif head.get("transfer-encoding"):
            if head.get("transfer-encoding").lower() != "chunked":
                raise Garbled("the answer has an encoding that is not known")
            self._chunked = True
        elif head.get("content-length"):
            length = head.get("content-length")
            if not (length.isascii() and length.isdecimal()):
                raise Garbled("the answer has a length that is none")
            self._left = int(length)
            self.complete = self._left == 0
        else:
            self._left = None
        return head

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request."""
        return self.sent and self.complete and not self._over and not self._buf and self._head is not None and not self._head.close and self._left is not None

    def piece(self) -> Optional[bytes]:
        """Returns the next piece of the body; None if it needs more data first, ``b""`` at the end."""
        while not self.complete:
            if self._chunked and self._left == 0 and not self._chunk():
                return None
            if self.complete:
                break
            if self._left is None:
                piece = bytes(self._buf)
                self._buf.clear()
                self.complete = self._over
            else:
                piece = bytes(self._buf[: self._left])
                del self._buf[: self._left]
                self._left -= len(piece)
                if not self._chunked:
                    self.complete = self._left == 0
            if piece:
                return piece
            if not self.complete:
                if self._over:
                    raise EOFError("the connection ended in the midst of the answer")
                return None
        return b""

    def _chunk(self) -> bool:
        """Reads up to the next chunk's data; False if it needs more data first."""
        while True:
            if self._trailer:
                line = self._line()
                if line is None:
                    return False
                if line == b"":
                    self.complete = True
                    return True
                continue
            if self._buf[:2] == b"\r\n":  # the end of the previous chunk
                del self._buf[:2]
            if self._buf[:1] == b"\r" and len(self._buf) < 2:
                line = None
            else:
                line = self._line()
            if line is None:
                if self._over:
                    raise EOFError("the connection ended in the midst of the answer")
                return False
            size = line.partition(b";")[0].strip()
            try:
                if not size.isalnum() or len(size) > 15:
                    raise ValueError
                self._left = int(size, 16)
            except ValueError:
                raise Garbled("the answer has a chunk without a size") from None
            if self._left == 0:
                self._trailer = True
                continue
            return True

    def _line(self) -> Optional[bytes]:
        end = self._buf.find(b"\r\n")
        if end < 0:
            if len(self._buf) > MAX_HEAD:
                raise Garbled("the answer has a line that is too long")
            if self._over:
                raise EOFError("the connection ended in the midst of the answer")
            return None
        line = bytes(self._buf[:end])
        del self._buf[: end + 2]
        return line
