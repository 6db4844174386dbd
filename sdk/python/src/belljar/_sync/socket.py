# Made from _async/socket.py by scripts/generate.py. Do not edit.
"""A WebSocket to the server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional, TypeVar

from .. import _websocket as ws
from .._retry import Passing, Patience
from .._wire import Wire, Silent, foreign, pause
from ..errors import InternalError
from .transport import Transport

PING = 15.0  # seconds: a connection counts as dead if a ping that needs an answer gets none within another 15 s
PARTING = 5.0

T = TypeVar("T")


def reach(transport: Transport, connect: Callable[[], T], again: bool = True) -> T:
    """Calls ``connect``, and repeats it if necessary. Unless ``again``, it does so only if the server has not acted on the request."""
    patience = Patience(transport.patience)
    while True:
        try:
            return connect()
        except Passing as failure:
            if not (again or failure.refused):
                raise failure.error from failure.__cause__
            delay = patience.wait(failure)
        pause(delay)


class Socket:
    """One WebSocket. It can send and receive concurrently."""

    def __init__(self, transport: Transport, wire: Wire, decoder: ws.Decoder) -> None:
        self._transport, self._wire, self._decoder = transport, wire, decoder
        self._gone = False
        self._messages = 0  # counts starts and ends of messages
        self._read = 0  # the count of messages that the server has certainly read
        self._asked: Optional[int] = None  # the count at the last ping, until that is answered

    @classmethod
    def open(cls, transport: Transport, target: str, values: Mapping[str, Any]) -> Socket:
        wire, decoder = transport.upgrade(target, values)
        return cls(transport, wire, decoder)

    def send(self, kind: int, data: bytes, timeout: Optional[float] = None) -> None:
        """Sends a message. ``timeout`` bounds each pause in sending: the server reads nothing while the program reads no input."""
        self._messages += 1
        try:
            self._wire.send(ws.encode(kind, data), timeout)
        except OSError as e:
            self.cut()  # part of the message may have been sent
            raise self._transport.broken(e, "the connection broke") from e
        self._messages += 1

    def say(self, message: Mapping[str, Any], timeout: Optional[float] = None) -> None:
        """Sends a JSON object, like :meth:`send`."""
        self.send(ws.TEXT, json.dumps(message).encode("utf-8"), timeout)

    def receive(self, timeout: Optional[float] = None) -> Optional[ws.Message]:
        """Returns the next message, including a close; None if none arrives for so many seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while True:
                message = self._decoder.next()
                if message is None:
                    left = PING if until is None else min(PING, until - time.monotonic())
                    try:
                        data = self._wire.recv(max(left, 0.0))
                    except Silent:
                        if until is not None and time.monotonic() >= until:
                            return None
                        self._ping()
                        continue
                    if not data:
                        raise EOFError("the connection ended")
                    self._decoder.feed(data)
                elif message.kind == ws.PING:
                    if not self._wire.busy:  # data that waits to be sent is as good as a pong
                        self._wire.send(ws.encode(ws.PONG, message.data), self._transport.silence)
                elif message.kind == ws.CLOSE:
                    self._gone = True
                    return message
                elif message.kind != ws.PONG:
                    return message
                elif self._asked is not None:
                    self._read, self._asked = self._asked, None
        except ws.Violation as e:
            self.cut()
            raise InternalError(f"the stream cannot be read: {e}") from None
        except (OSError, EOFError) as e:
            self.cut()
            raise self._transport.broken(e, "the connection broke") from e

    def _ping(self) -> None:
        """Sends a ping, or raises Silent if the server should have answered.

        The server reads in order, pings included, and waits while the program does not read its input: then
        there is no pong.
        """
        if self._asked == self._read == self._messages:
            raise Silent("the other side says nothing")
        if self._asked is None and not self._wire.busy:
            self._asked = self._messages
            self._wire.send(ws.encode(ws.PING, b""), self._transport.silence)

    def leave(self) -> None:
        """Sends a close message after all earlier data."""
        if not self._gone:
            self._gone = True
            self._wire.send(ws.encode(ws.CLOSE, (1000).to_bytes(2, "big")), PARTING)

    def close(self) -> None:
        """Sends a close message, waits briefly for the answer, and cuts the connection."""
        try:
            if not self._gone:
                self.leave()
                until = time.monotonic() + PARTING
                while time.monotonic() < until:
                    message = self._decoder.next()
                    if message is not None and message.kind == ws.CLOSE:
                        break
                    if message is None:
                        data = self._wire.recv(max(until - time.monotonic(), 0.0))
                        if not data:
                            break
                        self._decoder.feed(data)
        except (OSError, ws.Violation) as e:  # the connection is over in any case
            if foreign(e):
                raise
        finally:
            self._wire.close()

    def cut(self) -> None:
        """Cuts the connection."""
        self._gone = True
        self._wire.close()
