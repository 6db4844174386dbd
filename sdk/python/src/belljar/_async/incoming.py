"""Answers whose bodies are still arriving, and their conversion."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import errors
from .._download import create, mode_of
from .._events import Events
from .._http import Answer, Garbled, Head
from .._retry import stranger
from .._wire_async import AsyncWire, Silent, aside
from ..errors import InternalError

if TYPE_CHECKING:
    from .transport import AsyncTransport

BROKE_OFF = "the server's answer broke off"
MAX_ANSWER = 64 << 20  # bytes of an answer that is decoded as JSON


class AsyncIncoming:
    """An answer whose body is still arriving. Close it, or use it in a ``with`` statement."""

    def __init__(self, transport: AsyncTransport, wire: AsyncWire, answer: Answer, head: Head, silence: float) -> None:
        self.head = head
        self._transport, self._wire, self._answer, self._silence = transport, wire, answer, silence
        self._closed = False

    async def piece(self, until: Optional[float] = None) -> bytes:
        """Returns the next piece of the body, ``b""`` at its end. errors.TimeoutError once the monotonic clock has reached ``until``."""
        try:
            while True:
                piece = self._answer.piece()
                if piece is not None:
                    if piece == b"":
                        self.close()
                    return piece
                left = self._silence if until is None else min(self._silence, until - time.monotonic())
                try:
                    self._answer.feed(await self._wire.recv(max(left, 0.0)))
                except Silent:
                    if until is not None and time.monotonic() >= until:
                        raise errors.TimeoutError("the time to wait is over") from None
                    raise
        except errors.TimeoutError:  # also an OSError
            self.close()
            raise
        except (OSError, EOFError, Garbled) as e:
            self.close()
            raise self._transport.broken(e, BROKE_OFF) from e
        except BaseException:
            self.close()
            raise

    async def read(self, most: int) -> bytes:
        """Returns the whole body, of at most so many bytes."""
        found = bytearray()
        while True:
            piece = await self.piece()
            if not piece:
                return bytes(found)
            found += piece
            if len(found) > most:
                self.close()
                raise InternalError("the server's answer is too long", status=self.head.status)

    async def save(self, to: Union[str, os.PathLike[str]]) -> None:
        """Writes the body to a file, which appears when it is complete. An existing file keeps its mode, and a symbolic link to it stays."""
        name = os.path.realpath(to)
        mode = mode_of(name)
        part = f"{name}.{os.getpid()}-{os.urandom(4).hex()}.part"
        file = create(part, mode)  # not in a thread: a task that is cancelled meanwhile would leave the file
        try:
            while True:
                piece = await self.piece()
                if not piece:
                    break
                await aside(file.write, piece)
            file.close()
            await aside(os.replace, part, name)
        except BaseException:
            file.close()
            with suppress(FileNotFoundError):  # cancelled during the rename
                os.unlink(part)
            raise

    async def events(self, until: Optional[float] = None) -> AsyncIterator[list[tuple[str, bytes]]]:
        """Yields the server-sent events of the body, in lists of those that have arrived."""
        if self.head.mime != "text/event-stream" or self.head.get("content-encoding"):  # the answer is not an event stream
            self.close()
            raise stranger(self.head)
        events = Events()
        while True:
            piece = await self.piece(until)
            if not piece:
                return
            try:
                found = events.feed(piece)
            except ValueError as e:
                raise InternalError(str(e)) from None
            yield found

    def close(self) -> None:
        """Closes the answer. A connection that has no more data for it is reused."""
        if not self._closed:
            self._closed = True
            self._transport.back(self._wire, self._answer.reusable)

    async def __aenter__(self) -> AsyncIncoming:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()


async def decode(incoming: AsyncIncoming) -> Any:
    """Decodes an answer as JSON; None if it is empty."""
    async with incoming:
        raw = await incoming.read(MAX_ANSWER)
    if incoming.head.status == 204:
        return None
    if incoming.head.mime != "application/json":
        raise stranger(incoming.head)
    try:
        return json.loads(raw)
    except ValueError:
        raise stranger(incoming.head) from None
    except RecursionError:
        raise InternalError("the server's answer is nested too deeply to be read", status=incoming.head.status) from None


async def read_all(incoming: AsyncIncoming) -> bytes:
    """Returns an answer as bytes, without a limit."""
    async with incoming:
        return await incoming.read(1 << 62)


def save_to(to: Union[str, os.PathLike[str]], folders: bool = False) -> Callable[[AsyncIncoming], Awaitable[None]]:
    """Writes an answer to a file. With ``folders``, it makes the folders above the file."""

    async def save(incoming: AsyncIncoming) -> None:
        async with incoming:
            if folders:
                os.makedirs(os.path.dirname(to), exist_ok=True)
            await incoming.save(to)

    return save
