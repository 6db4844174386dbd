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
from ..errors import BelljarError, ConflictError, PayloadTooLargeError, QuotaExceededError, UnreachableError
from .socket import AsyncSocket
from .transport import AsyncTransport

PIECE = 32 << 10  # bytes in one message
PARTING = 10.0  # seconds


class AsyncStdin:
    """A hold on a run's standard input. Closing it leaves the program's input open; :meth:`end` is end of file.

    It does not look at the run's output: follow ``run.logs()`` for that.
    """

    def __init__(self, socket: AsyncSocket) -> None:
        self._socket = socket
        self._told: dict[str, Any] = {}  # by the server, of the reason
        self.reason = ""  # why the input has ended: client, run_ended, or the limit that was broken

    @classmethod
    async def open(cls, transport: AsyncTransport, id: str, run: dict[str, Any]) -> AsyncStdin:
        if not run.get("interactive") or run["phase"] in ("completed", "failed", "killed", "timed_out"):
            raise ConflictError(f"run {id} takes no input", details={"run_id": id})
        try:
            return cls(await AsyncSocket.open(transport, path("runs", id, "stream"), {"from_seq": "tail"}))
        except Passing as failure:
            raise failure.error from failure.__cause__

    async def write(self, data: Union[bytes, str]) -> None:
        """Sends bytes, or text as UTF-8. Too much of it ends the input: QuotaExceededError, PayloadTooLargeError."""
        raw = gathered(data)
        for at in range(0, len(raw), PIECE):
            await self._glance(0.0)
            await self._say({"type": "stdin", "encoding": "base64", "data": base64(raw[at : at + PIECE])})

    async def end(self) -> None:
        """Closes the program's input for everybody, and returns when the server has done so."""
        if not self.reason:
            await self._say({"type": "stdin_close"})
        while not self.reason:
            await self._glance(None)
        if self.reason not in ("client", "run_ended"):
            raise _refusal(self.reason, self._told)

    async def _say(self, message: dict[str, Any], timeout: Optional[float] = None) -> None:
        if self.reason:
            raise _refusal(self.reason, self._told)
        try:
            await self._socket.say(message, timeout)
        except Passing as failure:
            raise failure.error from failure.__cause__

    async def _glance(self, timeout: Optional[float]) -> None:
        """Reads what the server says of the input, until it says nothing for so long."""
        while not self.reason:
            try:
                message = await self._socket.receive(timeout)
            except Passing as failure:
                self.reason = "connection_lost"
                raise failure.error from failure.__cause__
            if message is None:
                return
            if message.kind == ws.CLOSE:
                self.reason = "run_ended"
            elif message.kind == ws.TEXT:
                frame = json.loads(message.data)
                event = frame.get("event") if frame.get("type") == "event" else ""
                if event == "stdin_closed":
                    self._told = frame.get("data") or {}
                    self.reason = str(self._told.get("reason") or "client")
                elif event == "end":
                    self.reason = "run_ended"

    async def close(self) -> None:
        """Gives up this hold, once the program has taken what was written, or does not for ten seconds. Its input stays open."""
        try:
            if not self.reason:
                await self._say({"type": "stdin", "encoding": "utf8", "data": ""}, PARTING)  # behind it, the agent has taken the rest
            await self._socket.close()
        except BelljarError:
            pass
        finally:
            self._socket.cut()

    async def __aenter__(self) -> AsyncStdin:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if error is None or isinstance(error, Exception):
            await self.close()
        else:  # a cancelled task, or Ctrl-C, waits for nothing
            self._socket.cut()


def _refusal(reason: str, told: dict[str, Any]) -> BelljarError:
    """Why no more input is taken."""
    kind: type[BelljarError] = ConflictError
    if reason == "stdin_max_frame_bytes":
        kind = PayloadTooLargeError
    elif reason in ("stdin_max_bytes", "stdin_bps", "stdin_idle_timeout_sec"):
        kind = QuotaExceededError
    elif reason == "connection_lost":
        kind = UnreachableError
    details = {name: value for name, value in told.items() if name not in ("message", "hint")}
    return kind(told.get("message") or f"standard input is closed: {reason}", details={**details, "reason": reason}, hint=str(told.get("hint") or ""))
