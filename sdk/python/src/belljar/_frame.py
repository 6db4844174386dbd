"""A run's log: its frames, and the whole output of a run."""

from __future__ import annotations

import json
from binascii import a2b_base64
from typing import Any, Optional

INLINE = 1 << 20  # bytes to keep of each stream, half from its beginning and half from its end


class Frame:
    """One entry of a run's log.

    ``seq`` counts from 1 within the run, without a gap. ``type`` is ``stdout`` or ``stderr`` (``data`` are the bytes, ``text``
    the same as text), ``event`` (``event`` is its name: phase, start, end, error; ``info`` its data), ``heartbeat``, or
    ``truncated`` (the log was cut at its cap; ``reason`` says why). ``step`` is ``build`` for the output of a compiler before
    the program runs, "" for the program's own. ``result`` is a result of code in a context, as a line of JSON in ``data``, or
    a piece of one: the last piece ends with a newline.
    """

    __slots__ = ("seq", "type", "data", "event", "info", "reason", "time", "step")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.seq: int = raw["seq"]
        self.type: str = raw["type"]
        self.data = b""
        self.event: str = raw.get("event", "")
        self.info: dict[str, Any] = {}
        self.reason: str = raw.get("reason", "")
        self.time: str = raw.get("ts", "")
        self.step: str = raw.get("step", "")
        if self.type in ("stdout", "stderr", "result"):
            self.data = decoded(raw["data"], raw.get("encoding", "utf8"))
        elif self.type == "event":
            self.info = raw.get("data") or {}

    @classmethod
    def parse(cls, raw: bytes) -> "Frame":
        """Parses a frame in its JSON form. ValueError if it is not a frame."""
        try:
            return cls(json.loads(raw))
        except (KeyError, TypeError, AttributeError) as e:
            raise ValueError(f"a frame of the log cannot be read: {e!r}") from None

    @property
    def text(self) -> str:
        """The output as text, with U+FFFD for bytes that are not UTF-8, also where a frame ends within a character."""
        return self.data.decode("utf-8", "replace")

    @property
    def note(self) -> bool:
        """Whether this frame is for one reader only, with a borrowed seq, and not in the log."""
        return self.type == "event" and self.event in ("resume", "stdin_closed")

    @property
    def last(self) -> bool:
        """Whether this is the last frame."""
        return self.type == "event" and self.event == "end"

    def __repr__(self) -> str:
        what = repr(self.data) if self.data else self.event or self.reason
        return f"Frame(seq={self.seq}, type={self.type!r}, {what})"


def decoded(text: str, encoding: str) -> bytes:
    """Decodes output to bytes. ValueError for an unknown encoding."""
    if encoding == "utf8":
        return text.encode("utf-8", "surrogatepass")
    if encoding == "base64":
        return a2b_base64(text)
    raise ValueError(f"unknown encoding {encoding!r}")


class Excerpt:
    """The head and the tail of a stream."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = INLINE // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > INLINE:  # seldom, to keep it cheap
            del self.tail[: len(self.tail) - INLINE // 2]

    def kept(self) -> tuple[bytes, int, int]:
        """Returns the excerpt, the position of the gap, and its size in bytes; the gap includes characters that it would split."""
        head, tail = bytes(self.head), bytes(self.tail[-(INLINE // 2) :])
        if self.total > INLINE:
            head, tail = whole_end(head), whole_start(tail)
        omitted = self.total - len(head) - len(tail)
        return head + tail, len(head) if omitted else 0, omitted


def whole_end(data: bytes) -> bytes:
    """Returns the bytes without an incomplete character at their end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # a character begins here
            length = 4 if 0xF0 <= byte <= 0xF4 else 3 if byte >> 4 == 14 else 2 if 0xC2 <= byte < 0xE0 else 1
            return data[:-back] if length > back else data
    return data


def whole_start(data: bytes) -> bytes:
    """Returns the bytes without an incomplete character at their start."""
    for i in range(min(4, len(data))):
        if data[i] & 0xC0 != 0x80:
            return data[i:]
    return data


class Printed:
    """Collects the output of a run from its frames, in the form of an answer with the whole output."""

    def __init__(self) -> None:
        self.streams = {"stdout": Excerpt(), "stderr": Excerpt()}
        self.capped = False
        self.lines = bytearray()

    def add(self, frame: Frame) -> None:
        if frame.step:
            return
        if frame.type in self.streams:
            self.streams[frame.type].add(frame.data)
        elif frame.type == "result":
            self.lines += frame.data
        elif frame.type == "truncated":
            self.capped = True

    def answer(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, excerpt in self.streams.items():
            data, at, omitted = excerpt.kept()
            out[name] = data
            out[name + "_truncated"] = self.capped or omitted > 0
            if omitted:
                out[name + "_omitted_at"], out[name + "_omitted_bytes"] = at, omitted
        if self.lines:
            out["results"] = shown(bytes(self.lines))
        return out


def shown(lines: bytes) -> list[dict[str, Any]]:
    """Parses the results in a log's lines. It skips invalid ones: the lines come from the program."""
    found = []
    for line in lines.split(b"\n")[:-1]:
        try:
            result = json.loads(line)
        except (ValueError, RecursionError):
            continue
        known = isinstance(result, dict) and result.get("type") in ("value", "display", "error", "input", "cut")
        if known and isinstance(result.get("data") or {}, dict):
            found.append(result)
    return found


def output(raw: dict[str, Any], name: str) -> Optional[bytes]:
    """Returns a stream of an answer as bytes; None if the answer does not have it."""
    value = raw.get(name)
    if value is None or isinstance(value, bytes):
        return value
    return decoded(value, raw.get(name + "_encoding") or "utf8")
