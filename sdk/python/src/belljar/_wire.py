"""Connections of the sync client: they transfer bytes, and wait at most for their timeout."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from typing import Any, Callable, Optional, TypeVar

from ._address import Address

PIECE = 64 << 10  # bytes to read at once
LONGEST = 2e6  # the longest possible wait, in seconds
_T = TypeVar("_T")


class Silent(TimeoutError):
    """The other side has sent or accepted nothing for too long."""


def foreign(error: BaseException) -> bool:
    """Whether an exception comes from the caller's program, such as a signal handler that raises TimeoutError, not from a connection."""
    return isinstance(error, TimeoutError) and not isinstance(error, Silent) and error.errno is None


class Wire:
    """One connection. Several threads may send while one receives."""

    def __init__(self, sock: Any, tls: bool) -> None:
        self._sock = sock
        self._tls = threading.Lock() if tls else None  # OpenSSL allows one thread at a time
        self._sending = threading.Lock()  # keeps the data of two threads apart
        self._pid = os.getpid()
        sock.setblocking(False)

    @classmethod
    def dial(cls, address: Address, timeout: float, tunnel: bool = False) -> "Wire":
        """Connects. With ``tunnel``, a proxy forwards any bytes."""
        until = time.monotonic() + timeout
        try:
            return cls._dial(address, timeout, tunnel)
        except (TimeoutError, socket.timeout) as e:
            if e.errno is None and time.monotonic() >= until:
                raise Silent(*e.args) from None
            raise

    @classmethod
    def _dial(cls, address: Address, timeout: float, tunnel: bool) -> "Wire":
        if address.socket is not None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(timeout)
                sock.connect(address.socket)
            except BaseException:
                sock.close()
                raise
            return cls(sock, False)
        proxy = address.proxy
        place = (address.host, address.port) if proxy is None else (proxy.host, proxy.port)
        sock = socket.create_connection(place, timeout)
        try:
            if proxy is not None and (tunnel or address.tls):
                sock.sendall(proxy.connect(address.host, address.port))
                reply = b""
                while not proxy.through(reply):  # a server sends nothing before a request
                    piece = sock.recv(PIECE)
                    if not piece:
                        raise ConnectionResetError(f"proxy {proxy} has closed the connection")
                    reply += piece
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if address.tls:
                import ssl  # slow to import

                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=address.host)
        except BaseException:
            sock.close()
            raise
        return cls(sock, address.tls)

    def _ready(self, write: bool, until: Optional[float]) -> None:
        """Waits until the socket is readable or writable."""
        wait = None if until is None else min(max(until - time.monotonic(), 0.0), LONGEST)
        fd = self._sock.fileno()
        if fd < 0:
            raise ConnectionResetError("the connection is closed")
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(fd, select.POLLOUT if write else select.POLLIN)
            found = bool(poll.poll(None if wait is None else int(wait * 1000) + 1))
        else:
            sides = ([], [fd], [fd]) if write else ([fd], [], [fd])
            found = any(select.select(*sides, wait))
        if not found:
            raise Silent("the other side says nothing")

    def _try(self, do: Callable[[Any], Any], what: Any) -> tuple[Any, bool]:
        """Tries an operation without blocking; otherwise returns whether it must wait for writing."""
        if self._tls is None:
            try:
                return do(what), False
            except BlockingIOError:
                return None, False
        import ssl

        with self._tls:
            try:
                return do(what), False
            except ssl.SSLWantReadError:
                return None, False
            except ssl.SSLWantWriteError:
                return None, True
            except ssl.SSLZeroReturnError:
                return b"", False

    def send(self, data: bytes, timeout: Optional[float]) -> None:
        """Sends all data; Silent if the other side accepts nothing for so long."""
        view = memoryview(data)
        with self._sending:
            while view:
                until = None if timeout is None else time.monotonic() + timeout
                while True:
                    sent, _ = self._try(self._sock.send, view[: 1 << 20])
                    if sent is not None:
                        break
                    self._ready(True, until)
                view = view[sent:]

    @property
    def busy(self) -> bool:
        """Whether a send would block now."""
        try:
            self._ready(True, 0.0)
        except Silent:
            return True
        return self._sending.locked()

    def recv(self, timeout: Optional[float]) -> bytes:
        """Returns received data, ``b""`` at the connection's end; Silent if none arrives for so long."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            data, write = self._try(self._sock.recv, PIECE)
            if data is not None:
                return bytes(data)
            self._ready(write, until)

    @property
    def usable(self) -> bool:
        """Whether the connection can carry another request: this process owns it, and no unrequested data has arrived."""
        if self._pid != os.getpid() or self._sock.fileno() < 0:
            return False
        try:
            return self._try(self._sock.recv, 1)[0] is None
        except OSError:
            return False

    def close(self) -> None:
        """Cuts the connection. In a forked child, the parent's connection continues."""
        if self._pid == os.getpid():
            try:
                self._sock.shutdown(socket.SHUT_RDWR)  # wakes another thread that waits for the connection
            except OSError:
                pass
        self._sock.close()


def pause(seconds: float) -> None:
    time.sleep(seconds)


def settle(answer: Any) -> None:
    """Refuses an async callback."""
    if hasattr(answer, "__await__"):
        getattr(answer, "close", lambda: None)()
        raise TypeError("the callback is async: use the async client, or give a plain function")


def aside(do: Callable[..., _T], *args: Any) -> _T:
    """Calls a function that may block."""
    return do(*args)




class Beside:
    """A background task, in a thread that does not keep the program from ending."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self._thread = threading.Thread(target=do, name="belljar-listens", daemon=True)
        self._thread.start()

    def wait(self, timeout: float) -> None:
        """Waits for the task's end, for so many seconds at most."""
        self._thread.join(timeout)


Event = threading.Event


class Leaving:
    """Runs the remaining work for abandoned calls."""

    def start(self, do: Callable[[], Any]) -> None:
        try:
            do()
        except Exception:
            pass  # the caller is gone and gets no report

    def wait(self) -> None:
        """Returns at once: start has done the work already."""
