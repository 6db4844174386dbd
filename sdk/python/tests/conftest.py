"""Shared fixtures: a real server, clients of both kinds, and servers that misbehave."""

from __future__ import annotations

import inspect
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import pytest

from belljar import AsyncBelljar, Belljar

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
REPOSITORY = ROOT.parent.parent
BINARY = os.path.abspath(os.environ.get("BELLJAR_BIN") or REPOSITORY / "bin" / "belljar")
LONG = 120.0  # seconds for any single step on a busy machine
KEY = "a-key-for-the-tests-of-python"


def alone() -> None:
    """Removes settings for other servers from the environment, and gives the tests' server long timeouts."""
    for name in list(os.environ):
        if name.startswith(("SANDBOX_", "DOCKER_")) or name.lower().endswith("_proxy") or name in ("BELLJAR_SERVER", "BELLJAR_API_KEY"):
            del os.environ[name]
    os.environ["BELLJAR_BIN"] = BINARY
    os.environ["SANDBOX_IMAGE_PULL"] = "never"
    for name in ("SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC", "SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC"):
        os.environ[name] = "300"
    os.umask(0o022)
    for ignored in (signal.SIGINT, signal.SIGTERM):  # a shell's & and nohup ignore these; programs that tests start would inherit that
        if signal.getsignal(ignored) == signal.SIG_IGN:
            signal.signal(ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL)


alone()


def until(what: Callable[[], Any], seconds: float = LONG) -> Any:
    """Waits until a condition holds, and returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"it never came to that: {inspect.getsource(what).strip()}")
        time.sleep(0.02)


async def got(value: Any) -> Any:
    """The result of a call of either client."""
    return await value if inspect.isawaitable(value) else value


async def each(values: Any) -> AsyncIterator[Any]:
    """The items of an iterator of either client."""
    if hasattr(values, "__aiter__"):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value


class Server:
    """A real server on a socket file, which tests can kill and restart."""

    def __init__(self) -> None:
        self.dir = tempfile.mkdtemp(prefix="bjpy-", dir="/tmp")  # short: a socket's path has at most 107 bytes
        self.socket = os.path.join(self.dir, "api.sock")
        self.url = "unix:" + self.socket
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.log = open(os.path.join(self.dir, "log"), "ab")

    def start(self) -> None:
        command = [BINARY, "serve", "--json", "--listen", self.url, "--data", os.path.join(self.dir, "data")]
        for setting in ("end_sessions=true", "default_startup_timeout_sec=300", "queue_ttl_sec=900", "log_level=warn"):
            command += ["--set", setting]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL, env={**os.environ, "SANDBOX_API_KEY": KEY}
        )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], LONG)
        line = self.process.stdout.readline() if ready else b""  # printed when it is ready; empty if it ended
        self.process.stdout.close()
        if not line:
            self.kill()
            self.log.flush()
            raise AssertionError("the server does not start: " + Path(self.log.name).read_text())
        json.loads(line)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(LONG)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A shared server for tests that do not damage it."""
    if not os.access(BINARY, os.X_OK):
        pytest.fail(f"there is no {BINARY}: make build, or set BELLJAR_BIN")
    s = Server()
    try:
        s.start()
        yield s
    finally:
        s.stop()


@pytest.fixture
def fragile() -> Iterator[Server]:
    """A server for one test."""
    s = Server()
    try:
        s.start()
        yield s
    finally:
        if s.process is not None and s.process.poll() is not None:
            s.start()  # so that it removes the sandboxes of the killed server
        s.stop()


@pytest.fixture(params=["sync", "async"])
async def belljar(request: Any, server: Server) -> AsyncIterator[Any]:
    """A client of each kind; use :func:`got` and :func:`each` with it."""
    client: Any = Belljar(server.url, api_key=KEY) if request.param == "sync" else AsyncBelljar(server.url, api_key=KEY)
    try:
        yield client
    finally:
        await got(client.close())


@pytest.fixture
async def session(belljar: Any) -> AsyncIterator[Any]:
    """A session for one test."""
    s = await got(belljar.sessions.create())
    try:
        yield s
    finally:
        await got(s.close())


class Stage:
    """A scripted server: each connection is handled by the next of its acts."""

    def __init__(self, *acts: Callable[[Any], None], forever: Optional[Callable[[Any], None]] = None) -> None:
        import socket

        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.acts, self.forever = list(acts), forever
        self.connections = 0
        self.requests: list[bytes] = []
        self.faults: list[BaseException] = []
        self.threads: list[threading.Thread] = []
        self.sockets: list[Any] = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            sock.settimeout(LONG)
            self.sockets.append(sock)
            act = self.acts.pop(0) if self.acts else self.forever
            thread = threading.Thread(target=self._play, args=(sock, act), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _play(self, sock: Any, act: Optional[Callable[[Any], None]]) -> None:
        try:
            if act is not None:
                act(Actor(self, sock))
        except (ConnectionError, EOFError):
            pass  # the client has closed the connection
        except BaseException as e:
            self.faults.append(e)
        finally:
            sock.close()

    def close(self) -> None:
        import socket

        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.thread.join(LONG)
        for sock in self.sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(LONG)
        assert not self.faults, self.faults


class Actor:
    """One connection of a :class:`Stage`."""

    def __init__(self, stage: Stage, sock: Any) -> None:
        self.stage, self.sock, self.buf = stage, sock, b""

    def request(self) -> bytes:
        """Reads one request, head and body."""
        head = self.head()
        size = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        while len(self.buf) < size:
            self.more()
        body, self.buf = self.buf[:size], self.buf[size:]
        self.stage.requests.append(head + body)
        return head + body

    def head(self) -> bytes:
        while b"\r\n\r\n" not in self.buf:
            self.more()
        end = self.buf.index(b"\r\n\r\n") + 4
        head, self.buf = self.buf[:end], self.buf[end:]
        return head

    def more(self) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self.buf += data

    def say(self, *parts: Any) -> None:
        for part in parts:
            self.sock.sendall(part if isinstance(part, bytes) else part.encode())

    def answer(self, status: int, body: Any = None, headers: str = "", kind: str = "application/json") -> None:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.say(f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\nContent-Length: {len(raw)}\r\n{headers}\r\n", raw)

    def gone(self) -> int:
        """Waits until the client has closed the connection, and returns the number of bytes that no act has read."""
        unread = len(self.buf)
        try:
            while data := self.sock.recv(65536):
                unread += len(data)
        except ConnectionError:
            pass
        return unread


def error(code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


@pytest.fixture
def stage() -> Iterator[Callable[..., Stage]]:
    """Starts scripted servers."""
    stages: list[Stage] = []

    def make(*acts: Callable[[Any], None], forever: Optional[Callable[[Any], None]] = None) -> Stage:
        stages.append(Stage(*acts, forever=forever))
        return stages[-1]

    yield make
    for one in stages:
        one.close()


@pytest.fixture(params=["sync", "async"])
async def connect(request: Any) -> AsyncIterator[Callable[..., Any]]:
    """Makes clients of each kind."""
    clients: list[Any] = []

    def make(url: str, **options: Any) -> Any:
        client: Any = (Belljar if request.param == "sync" else AsyncBelljar)(url, **{"api_key": "k", **options})
        clients.append(client)
        return client

    yield make
    for client in clients:
        await got(client.close())
