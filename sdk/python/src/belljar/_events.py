"""A parser for server-sent events, without input and output."""

from __future__ import annotations

MAX_LINE = 8 << 20  # bytes


class Events:
    """Parses events from pieces of data. It leaves out an event that the end of the data cuts off."""

    def __init__(self) -> None:
        self._buf = bytearray()
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Returns the names and data of the events that are now complete."""
        found: list[tuple[str, bytes]] = []
        self._buf += data
        end = self._buf.rfind(b"\n")
        if end < 0:
            if len(self._buf) > MAX_LINE:
                raise ValueError("a line of the stream is too long")
            return found
        lines = bytes(self._buf[:end]).split(b"\n")
        del self._buf[: end + 1]
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]
            if not line:
                if self._name or self._data:
                    found.append((self._name, b"\n".join(self._data)))
                self._name, self._data = "", []
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line.startswith(b"event:"):
                self._name = line[6:].strip().decode("utf-8", "replace")
        return found
