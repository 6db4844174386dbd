# Made from _async/terminals.py by scripts/generate.py. Do not edit.
"""Terminals in sessions, with detach and reattach."""

from __future__ import annotations

import json
import time
from binascii import a2b_base64
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, List, Optional, Union, cast

from .. import _websocket as ws
from .. import errors
from .._address import path
from .._body import gathered
from .._retry import Passing
from .._spec import Command, argv
from ..errors import BelljarError, ConflictError, InternalError, NotFoundError, UnreachableError
from .socket import Socket, reach
from .transport import Ask, Transport

if TYPE_CHECKING:
    from .. import types

PIECE = 32 << 10  # bytes of input in one message
REASONS = {1000: "exit", 1001: "shutdown", 1013: "overflow", 4004: "closed", 4008: "timeout", 4009: "overflow", 4010: "replaced"}


class Terminal:
    """An attachment to a terminal. After you detach, its program continues, for a quarter of an hour by default.

    Iterate over it, or call :meth:`read`, to get the output; the first piece may be earlier output. ``raw`` is the server's
    last answer about the terminal. ``exit_code`` is set once its program has ended. ``reason`` is why the output has ended:
    exit, closed, timeout, replaced (another client attached), overflow (this client has not read for a minute, or too
    slowly: attach again) or shutdown (the server stops: attach again).
    """

    def __init__(self, transport: Transport, socket: Socket) -> None:
        self._transport, self._socket = transport, socket
        self.raw: dict[str, Any] = {}
        self.token = ""  # the sealed id with which browsers reattach
        self.exit_code: Optional[int] = None
        self.reason = ""
        self._fault: Optional[BelljarError] = None
        self._left = False
        self._again = b""  # output that a failed read_until returns to the next read

    @classmethod
    def open(
        cls, transport: Transport, session: str, *, cols: int, rows: int, command: Optional[Command], name: Optional[str], shared: bool
    ) -> Terminal:
        values = {
            "cols": cols, "rows": rows, "command": None if command is None else argv(command), "session_name": name,
            "shared": True if shared else None,
        }  # fmt: skip
        return reach(transport, lambda: cls._connect(transport, path("sessions", session, "terminals"), values), again=False)

    @classmethod
    def attach(cls, transport: Transport, id: str, history: bool) -> Terminal:
        values = {"terminal_id": id, "resume": None if history else False}
        return reach(transport, lambda: cls._connect(transport, path("terminals"), values))

    @classmethod
    def _connect(cls, transport: Transport, target: str, values: dict[str, Any]) -> Terminal:
        socket = Socket.open(transport, target, values)
        try:
            self = cls(transport, socket)
            while not self.raw and not self.reason:
                if self._next(transport.silence) is None:
                    raise UnreachableError("the server does not say which terminal it is")
            if not self.raw:
                raise self._fault or NotFoundError("this terminal or session does not exist, or has ended")
        except BaseException:
            socket.cut()
            raise
        return self

    @property
    def id(self) -> str:
        """The terminal's id, for ``terminals.attach``."""
        return str(self.raw["terminal_id"])

    def _next(self, timeout: Optional[float]) -> Optional[bytes]:
        """Reads one message: the output, b"" for anything else, None if none arrived in time."""
        message = self._socket.receive(timeout)
        if message is None:
            return None
        if message.kind == ws.CLOSE:
            if self._left:  # the answer to our own close says nothing about the program
                return b""
            self.reason = self.reason or REASONS.get(message.code, "failed")
            if self.reason == "failed" and self._fault is None:
                self._fault = InternalError(f"the server ended the terminal: {message.code} {message.reason}".rstrip())
            return b""
        try:
            event = json.loads(message.data)
            kind = event["type"]
            if kind in ("output", "history"):
                data: str = event["data"]
                return a2b_base64(data) if event.get("encoding") == "base64" else data.encode("utf-8", "surrogatepass")
            if kind == "session":
                self.raw, self.token = event["terminal"], event["session_id"]
            elif kind == "exit":
                self.exit_code, self.reason = event["exit_code"], "exit"
            elif kind == "error":
                error = errors.of_code(event["code"])
                self._fault = error(event["message"], code=event["code"], details=event.get("details"), hint=event.get("hint") or "")
            elif kind == "session_not_found":
                self._fault = NotFoundError("this terminal or session does not exist, or has ended")
        except (ValueError, KeyError, TypeError) as e:
            raise InternalError(f"the terminal cannot be read: {e!r}") from None
        return b""

    def read(self, timeout: Optional[float] = None) -> bytes:
        """Returns the next output; ``b""`` at the end. TimeoutError if no output comes within ``timeout`` seconds."""
        if self._again:
            again, self._again = self._again, b""
            return again
        while not self.reason and not self._left:
            try:
                data = self._next(timeout)
            except Passing as failure:
                if self._left:
                    break
                raise failure.error from failure.__cause__
            if data is None:
                raise errors.TimeoutError("the terminal prints nothing", details={"terminal_id": self.id})
            if data:
                return data
        if self.reason == "failed" and self._fault is not None:
            raise self._fault
        return b""

    def __iter__(self) -> Iterator[bytes]:
        while True:
            data = self.read()
            if not data:
                return
            yield data

    def read_until(self, text: Union[bytes, str], timeout: Optional[float] = 60.0) -> bytes:
        """Returns the output up to a text, or all of it if the program ends first.

        TimeoutError if the text does not arrive within ``timeout`` seconds; you can then read the
        output again.
        """
        wanted = text.encode("utf-8") if isinstance(text, str) else text
        until = None if timeout is None else time.monotonic() + timeout
        found, begin = bytearray(), 0
        try:
            while found.find(wanted, begin) < 0:
                begin = max(len(found) - len(wanted) + 1, 0)
                left = None if until is None else until - time.monotonic()
                if left is not None and left < 0 and found:
                    raise errors.TimeoutError("the terminal has not printed the text in time", details={"terminal_id": self.id})
                data = self.read(None if left is None else max(left, 0.0))
                if not data:
                    break
                found += data
        except BaseException:
            self._again = bytes(found) + self._again
            raise
        return bytes(found)

    def write(self, data: Union[bytes, str]) -> None:
        """Sends input: bytes, or text as UTF-8."""
        raw = gathered(data)
        for at in range(0, len(raw), PIECE):
            self._send(ws.BINARY, raw[at : at + PIECE])

    def resize(self, cols: int, rows: int) -> None:
        """Changes the terminal's size for all clients: each side is 1 to 1000."""
        if not (1 <= cols <= 1000 and 1 <= rows <= 1000):
            raise errors.InvalidRequestError("each side of a terminal is 1 to 1000", details={"field": "cols" if not 1 <= cols <= 1000 else "rows"})
        self._send(ws.TEXT, json.dumps({"type": "resize", "cols": cols, "rows": rows}).encode())

    def _send(self, kind: int, data: bytes) -> None:
        if self.reason or self._left:
            raise ConflictError("the terminal no longer accepts input", details={"reason": self.reason or "left"})
        try:
            self._socket.send(kind, data)
        except Passing as failure:
            raise failure.error from failure.__cause__

    def close(self) -> None:
        """Detaches. The program continues, and ``terminals.attach`` reattaches."""
        if not self._left:
            self._left = True
            self._socket.close()

    def end(self) -> None:
        """Ends the terminal's program and detaches."""
        Terminals(self._transport).end(self.id)
        self.close()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if error is None or isinstance(error, Exception):
            self.close()
        else:  # a cancelled task, or Ctrl-C, does not wait
            self._left = True
            self._socket.cut()


class Terminals:
    """The terminals in the caller's sessions."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, session: str) -> List[types.Terminal]:
        """Lists a session's terminals, oldest first."""
        return cast("list[types.Terminal]", (self._transport.ask(Ask("GET", path("sessions", session, "terminals")), "items"))["items"])

    def get(self, id: str) -> types.Terminal:
        """Returns a terminal; NotFoundError if there is none, or its time to reattach is over."""
        return cast("types.Terminal", self._transport.ask(Ask("GET", path("terminals", id))))

    def attach(self, id: str, *, history: bool = True) -> Terminal:
        """Attaches to a terminal. With ``history=False`` it leaves out earlier output."""
        return Terminal.attach(self._transport, id, history)

    def end(self, id: str) -> None:
        """Ends a terminal and its program."""
        self._transport.ask(Ask("DELETE", path("terminals", id), again=False))
