"""Connections of the async client: they transfer bytes, and wait at most for their timeout."""

from __future__ import annotations

import asyncio
import os
import select
from typing import Any, Callable, Optional, TypeVar

from ._address import Address
from ._proxy import Proxy
from ._wire import Silent as Silent
from ._wire import foreign as foreign

MOST = 256 << 10  # bytes in the read buffer before the other side is slowed down
SLICE = 256 << 10  # bytes to send at once
_T = TypeVar("_T")


class _Line(asyncio.Protocol):
    """asyncio's callbacks for a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.transport: Any = None
        self.buf = bytearray()
        self.over = False
        self.fault: Optional[BaseException] = None
        self.readers: set[asyncio.Future[None]] = set()
        self.writers: set[asyncio.Future[None]] = set()
        self.full = False  # the other side does not accept data
        self.halted = False  # reading is paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buf += data
        if len(self.buf) > MOST and not self.halted:
            self.halted = True
            self.transport.pause_reading()
        _wake(self.readers)

    def eof_received(self) -> bool:
        self.over = True
        _wake(self.readers)
        return False

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self.over = True
        self.fault = self.fault or exc
        self.full = False
        _wake(self.readers)
        _wake(self.writers)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        _wake(self.writers)


def _wake(waiters: set[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def _late(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(Silent("the other side says nothing"))


class AsyncWire:
    """One connection. One task may send while another receives."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._pid = os.getpid()

    @classmethod
    async def dial(cls, address: Address, timeout: float, tunnel: bool = False) -> "AsyncWire":
        """Connects. With ``tunnel``, a proxy forwards any bytes."""
        loop = asyncio.get_running_loop()
        line = _Line(loop)
        if address.socket is not None:
            dialing: Any = loop.create_unix_connection(lambda: line, address.socket)
        else:
            context = None
            if address.tls:
                import ssl

                context = ssl.create_default_context()
            if address.proxy is None:
                dialing = loop.create_connection(lambda: line, address.host, address.port, ssl=context)
            else:
                dialing = _by_proxy(line, address, address.proxy, context, timeout, tunnel)
        task = loop.create_task(dialing)
        try:
            await asyncio.wait({task}, timeout=timeout)
        except BaseException:
            task.cancel()
            task.add_done_callback(_discard)
            raise
        if not task.done():
            task.cancel()
            task.add_done_callback(_discard)
            raise Silent("no answer from there")
        task.result()
        return cls(line)

    async def _wait(self, waiters: set[asyncio.Future[None]], timeout: Optional[float]) -> None:
        line = self._line
        waiter: asyncio.Future[None] = line.loop.create_future()
        waiters.add(waiter)
        late = None if timeout is None else line.loop.call_later(timeout, _late, waiter)
        try:
            await waiter
        finally:
            waiters.discard(waiter)
            if late is not None:
                late.cancel()

    async def send(self, data: bytes, timeout: Optional[float]) -> None:
        """Sends all data; Silent if the other side accepts no slice for so long. Data of several slices is sent alone."""
        line = self._line
        view = memoryview(data)
        while view:
            if line.over and (line.fault or line.transport.is_closing()):
                raise line.fault or ConnectionResetError("the connection is closed")
            line.transport.write(view[:SLICE])
            view = view[SLICE:]
            while line.full:
                await self._wait(line.writers, timeout)
            if line.fault:
                raise line.fault

    @property
    def busy(self) -> bool:
        """Whether a send would block now."""
        return self._line.full

    async def recv(self, timeout: Optional[float]) -> bytes:
        """Returns received data, ``b""`` at the connection's end; Silent if none arrives for so long."""
        line = self._line
        while not line.buf:
            if line.fault:
                raise line.fault
            if line.over:
                return b""
            await self._wait(line.readers, timeout)
        data = bytes(line.buf)
        line.buf.clear()
        if line.halted:
            line.halted = False
            if not line.transport.is_closing():
                line.transport.resume_reading()
        return data

    @property
    def usable(self) -> bool:
        """Whether the connection can carry another request: this loop owns it, and no unrequested data has arrived."""
        line = self._line
        if self._pid != os.getpid() or line.loop is not asyncio.get_running_loop() or line.over or line.buf or line.transport.is_closing():
            return False
        sock = line.transport.get_extra_info("socket")  # the loop may not have polled the socket for a while
        return sock is not None and not _speaks(sock.fileno())

    def close(self) -> None:
        """Closes the connection."""
        line = self._line
        if self._pid != os.getpid() or line.transport is None:
            return
        if asyncio._get_running_loop() is line.loop:
            line.transport.abort()
            return
        try:
            line.loop.call_soon_threadsafe(line.transport.abort)  # the loop may run in another thread
        except RuntimeError:  # the loop has ended; the transport closes its socket when it is collected
            line.transport = None


def _speaks(fd: int) -> bool:
    """Whether data, or the end, has arrived."""
    if fd < 0:
        return True
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([fd], [], [fd], 0)[0])


async def _by_proxy(line: _Line, address: Address, proxy: Proxy, context: Any, timeout: float, tunnel: bool) -> tuple[Any, Any]:
    """Connects through a proxy."""
    transport, _ = await line.loop.create_connection(lambda: line, proxy.host, proxy.port)
    try:
        if tunnel or address.tls:
            wire = AsyncWire(line)
            await wire.send(proxy.connect(address.host, address.port), timeout)
            reply = b""
            while not proxy.through(reply):  # a server sends nothing before a request
                piece = await wire.recv(timeout)
                if not piece:
                    raise ConnectionResetError(f"proxy {proxy} has closed the connection")
                reply += piece
        if address.tls:
            line.transport = await line.loop.start_tls(transport, line, context, server_hostname=address.host)
    except BaseException:
        transport.abort()
        raise
    return line.transport, line


def _discard(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and task.exception() is None:
        task.result()[0].abort()


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def settle(answer: Any) -> None:
    """Awaits a callback's result, if it is awaitable."""
    if hasattr(answer, "__await__"):
        await answer


async def aside(do: Callable[..., _T], *args: Any) -> _T:
    """Calls a function that may block, in a thread."""
    return await asyncio.get_running_loop().run_in_executor(None, do, *args)




class AsyncBeside:
    """A background task."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self._task = asyncio.get_running_loop().create_task(do())

    async def wait(self, timeout: float) -> None:
        """Waits for the task's end, for so many seconds at most."""
        await asyncio.wait({self._task}, timeout=timeout)


AsyncEvent = asyncio.Event


class AsyncLeaving:
    """Runs the remaining work for abandoned calls in the background."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, do: Callable[[], Any]) -> None:
        task = asyncio.get_running_loop().create_task(do())
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller is gone and gets no report

    async def wait(self) -> None:
        for _ in range(2):  # a task that was cancelled just now starts its work when it runs again
            await asyncio.sleep(0)
        here = {task for task in self._tasks if task.get_loop() is asyncio.get_running_loop()}
        if here:
            await asyncio.wait(here)
