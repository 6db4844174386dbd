"""Connections whose other side pauses reading."""

from __future__ import annotations

import asyncio
import socket
import threading
import weakref
from typing import Any, Optional

import pytest
from conftest import LONG, got

import belljar as b
from belljar import _websocket as ws
from belljar import _wire
from belljar._async.socket import AsyncSocket
from belljar._retry import Passing
from belljar._sync.socket import Socket
from belljar._wire import Silent
from belljar._wire_async import SLICE, AsyncWire, _Line


class Pipe:
    """The transport of a connection whose other side reads on request."""

    def __init__(self, line: _Line) -> None:
        self.line, self.sizes, self.wait = line, [], True  # type: ignore[var-annotated]

    def write(self, data: Any) -> None:
        self.sizes.append(len(data))
        self.line.pause_writing()
        if not self.wait:
            self.line.loop.call_soon(self.line.resume_writing)

    def abort(self) -> None:
        self.thread = threading.current_thread()


async def test_what_waits_to_be_sent() -> None:
    line = _Line(asyncio.get_running_loop())
    line.transport = pipe = Pipe(line)
    wire = AsyncWire(line)
    both = asyncio.gather(wire.send(b"one", 5.0), wire.send(b"two", 5.0))
    while len(line.writers) < 2:
        await asyncio.sleep(0)
    assert wire.busy
    line.resume_writing()
    await both
    assert not wire.busy
    pipe.sizes, pipe.wait = [], False
    await wire.send(bytes(3 * SLICE + 1), 5.0)  # the timeout applies to each slice
    assert pipe.sizes == [SLICE, SLICE, SLICE, 1]


async def test_a_connection_of_another_loop() -> None:
    line = _Line(asyncio.get_running_loop())
    line.transport = pipe = Pipe(line)
    await asyncio.to_thread(AsyncWire(line).close)
    await asyncio.sleep(0)
    assert pipe.thread is threading.current_thread()
    loop = asyncio.new_event_loop()
    loop.close()
    line = _Line(loop)
    line.transport = Pipe(line)
    gone = weakref.ref(line.transport)
    for _ in range(2):
        AsyncWire(line).close()
    assert gone() is None


def test_a_time_without_end() -> None:
    one, two = socket.socketpair()
    with one, two:
        _wire.Wire(one, False)._ready(True, float("inf"))


class Wire:
    """A connection that replays a script of incoming data; None is silence."""

    def __init__(self, *script: Optional[bytes]) -> None:
        self.script, self.sent, self.busy, self.closed = list(script), [], False, False  # type: ignore[var-annotated]

    def send(self, data: bytes, timeout: float) -> None:
        self.sent.append(data[0] & 15)

    def recv(self, timeout: float) -> bytes:
        piece = self.script.pop(0)
        if piece is None:
            raise Silent
        return piece

    def close(self) -> None:
        self.closed = True


class SlowWire(Wire):
    """The same for the async client."""

    async def send(self, data: bytes, timeout: float) -> None:  # type: ignore[override]
        super().send(data, timeout)

    async def recv(self, timeout: float) -> bytes:  # type: ignore[override]
        return super().recv(timeout)


PONG, PING, HELLO = b"\x8a\x00", b"\x89\x00", b"\x81\x02hi"


@pytest.mark.parametrize("kind, wired", [(Socket, Wire), (AsyncSocket, SlowWire)])
async def test_input_that_is_not_read_excuses_a_missing_pong(connect: Any, kind: Any, wired: Any) -> None:
    async def heard(*script: Optional[bytes], typed: bool = False, busy: bool = False) -> tuple[bool, list[int]]:
        """Whether a message arrived, and the frames that were sent."""
        wire = wired(*script)
        socket = kind(connect("http://x")._transport, wire, ws.Decoder(b""))
        if typed:
            await got(socket.send(ws.BINARY, b"typed"))
        wire.busy = busy
        try:
            return (await got(socket.receive())).data == b"hi", wire.sent
        except Passing:
            assert wire.closed
            return False, wire.sent

    assert await heard(None, None, HELLO) == (False, [ws.PING])
    assert await heard(None, PONG, None, None, HELLO) == (False, [ws.PING, ws.PING])
    assert await heard(None, None, None, HELLO, typed=True) == (True, [ws.BINARY, ws.PING])
    assert await heard(None, PONG, None, None, HELLO, typed=True) == (False, [ws.BINARY, ws.PING, ws.PING])
    assert await heard(None, None, PING, HELLO, busy=True) == (True, [])
    assert await heard(PING, HELLO) == (True, [ws.PONG])


@pytest.mark.parametrize("kind, wired", [(Socket, Wire), (AsyncSocket, SlowWire)])
async def test_a_message_that_is_sent_in_part_is_the_last(connect: Any, kind: Any, wired: Any) -> None:
    class Stuck(wired):  # type: ignore[misc]
        def send(self, data: bytes, timeout: float) -> None:
            raise Silent

    wire = Stuck()
    with pytest.raises(Passing):
        await got(kind(connect("http://x")._transport, wire, ws.Decoder(b"")).send(ws.BINARY, b"typed"))
    assert wire.closed


async def test_a_server_that_reads_nothing_more(connect: Any, stage: Any) -> None:
    over = threading.Event()
    s = stage(lambda a: (a.head(), over.wait(LONG)))
    client = connect(s.url, silence=0.2, patience=0.0)
    one = (b.Session if isinstance(client, b.Belljar) else b.AsyncSession)(client.sessions, {"session_id": "s1", "state": "active"})
    try:
        with pytest.raises(b.UnreachableError, match="says nothing"):
            await got(one.files.write("f", bytes(64 << 20)))
    finally:
        over.set()
