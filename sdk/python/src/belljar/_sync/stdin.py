# Made from _async/stdin.py by scripts/generate.py. Do not edit.
"""The standard input of an interactive run."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Optional, Union

from .. import _websocket as ws
from .._address import path
from .._body import gathered
from .._retry import Passing
from .._spec import base64
from .._wire import Beside, Event, pause
from ..errors import BelljarError, ConflictError, PayloadTooLargeError, QuotaExceededError, UnreachableError
from .socket import Socket, reach
from .transport import Transport

PIECE = 32 << 10  # bytes in one message
PARTING = 10.0  # seconds to wait when closing


class Stdin:
    """A connection to a run's standard input. Closing it leaves the program's input open; :meth:`end` sends the end of
    file.

    It does not return the run's output: follow ``run.logs()`` for that.
    """

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._told: dict[str, Any] = {}  # the server's data about the reason
        self.reason = ""  # why the input has ended: client, run_ended, connection_lost, or the limit that was exceeded
        self._over = Event()  # set with the reason
        self._left = False
        self._beside = Beside(self._listen)

    @classmethod
    def open(cls, transport: Transport, id: str, run: dict[str, Any]) -> Stdin:
        if not run.get("interactive") or run["phase"] in ("completed", "failed", "killed", "timed_out"):
            raise ConflictError(f"run {id} takes no input", details={"run_id": id})
        return cls(reach(transport, lambda: Socket.open(transport, path("runs", id, "stream"), {"from_seq": "tail"})))

    def write(self, data: Union[bytes, str]) -> None:
        """Sends bytes, or text as UTF-8. Exceeding a limit ends the input: QuotaExceededError, PayloadTooLargeError."""
        raw = gathered(data)
        for at in range(0, len(raw), PIECE):
            pause(0.0)  # read messages that have arrived first
            self._say({"type": "stdin", "encoding": "base64", "data": base64(raw[at : at + PIECE])})

    def end(self) -> None:
        """Closes the program's input for all clients, and returns when the server has closed it."""
        if not self.reason:
            self._say({"type": "stdin_close"})
        self._over.wait()
        if self.reason not in ("client", "run_ended"):
            raise _refusal(self.reason, self._told)

    def _say(self, message: dict[str, Any], timeout: Optional[float] = None) -> None:
        if self.reason:
            raise _refusal(self.reason, self._told)
        try:
            self._socket.say(message, timeout)
        except Passing as failure:
            raise failure.error from failure.__cause__

    def _listen(self) -> None:
        """Reads the server's messages to the end. The server drops a client that reads neither pings nor output."""
        reason = "connection_lost"
        try:
            while True:
                message = self._socket.receive()
                if message is not None and message.kind == ws.CLOSE:
                    reason = "run_ended" if message.code == 1000 else reason
                    return
                if message is None or message.kind != ws.TEXT:
                    continue
                frame = json.loads(message.data)
                event = frame.get("event") if frame.get("type") == "event" else ""
                if event == "stdin_closed":
                    self._told = frame.get("data") or {}
                    self._end(str(self._told.get("reason") or "client"))
                elif event == "end":
                    reason = "run_ended"
                    return
        except (Passing, BelljarError, ValueError, AttributeError):
            self._socket.cut()
        finally:
            self._end(reason)

    def _end(self, reason: str) -> None:
        if not self._left:
            self.reason = self.reason or reason
        self._over.set()

    def close(self) -> None:
        """Closes this connection, once the program has taken its input or after ten seconds. The program's input stays open."""
        try:
            if not self.reason:
                self._say({"type": "stdin", "encoding": "utf8", "data": ""}, PARTING)  # when this is sent, the agent has taken the rest
            self._left = True
            self._socket.leave()
            self._beside.wait(PARTING)
        except (BelljarError, OSError):
            pass
        finally:
            self._socket.cut()

    def __enter__(self) -> Stdin:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if error is None or isinstance(error, Exception):
            self.close()
        else:  # a cancelled task, or Ctrl-C, does not wait
            self._socket.cut()


def _refusal(reason: str, reply: dict[str, Any]) -> BelljarError:
    """Returns the error for a write after the input has ended."""
    kind: type[BelljarError] = ConflictError
    if reason == "stdin_max_frame_bytes":
        kind = PayloadTooLargeError
    elif reason in ("stdin_max_bytes", "stdin_bps", "stdin_idle_timeout_sec"):
        kind = QuotaExceededError
    elif reason == "connection_lost":
        kind = UnreachableError
    details = {name: value for name, value in reply.items() if name not in ("message", "hint")}
    return kind(reply.get("message") or f"standard input is closed: {reason}", details={**details, "reason": reason}, hint=str(reply.get("hint") or ""))
