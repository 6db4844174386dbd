"""A private belljar: this program starts it, on a private socket, and it ends with this program.

The server exits when its standard input closes, so it ends however this process ends. No other process has the other
end of that pipe: forked children close theirs, and programs that this process starts do not inherit it.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping
from typing import IO, Any, Optional

from .errors import BelljarError, InvalidRequestError, RuntimeUnavailableError, UnreachableError

START = 60.0  # seconds for the server to become ready
LEAVE = 30.0  # seconds for the server to exit before it is killed
_WORDS = 16 << 10  # bytes to keep of its last output


def find(binary: Optional[str] = None) -> str:
    """Returns the path of the belljar to start: the given one, or $BELLJAR_BIN, or the one on PATH."""
    named = binary or os.environ.get("BELLJAR_BIN")
    if named and (os.sep in named or os.altsep and os.altsep in named):
        if os.path.isfile(named) and os.access(named, os.X_OK):
            return os.path.abspath(named)
        raise RuntimeUnavailableError(f"there is no program {named}", details={"binary": named}, hint=_HINT)
    import shutil

    found = shutil.which(named or "belljar")
    if found is None:
        raise RuntimeUnavailableError(f"there is no program {named or 'belljar'} on PATH", details={"binary": named or "belljar"}, hint=_HINT)
    return found


_HINT = "install belljar (make build leaves it in bin/), and put it on PATH or name it in BELLJAR_BIN; or use a server: mode='remote'"


class _Server:
    """One private server, with a count of its users."""

    def __init__(self, command: list[str]) -> None:
        self.holds = 0
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._told: Optional[dict[str, Any]] = None
        self._fault: Optional[RuntimeUnavailableError] = None  # the error for each waiter
        self._begun = time.monotonic()
        self._words = bytearray()
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except OSError as e:
            raise RuntimeUnavailableError(f"{command[0]} cannot be started: {e}", details={"binary": command[0]}, hint=_HINT) from e
        self._listener = threading.Thread(target=_listen, args=(self.process.stderr, self._words), name="belljar-local", daemon=True)
        self._listener.start()

    def ready(self) -> dict[str, Any]:
        """Waits until the server is ready, and returns the data that it announces."""
        with self._lock:
            if self._fault is not None:
                raise RuntimeUnavailableError(self._fault.message, details=self._fault.details, hint=self._fault.hint)
            if self._told is None:
                try:
                    self._told = self._hear()
                except RuntimeUnavailableError as e:
                    self._fault = e
                    raise
            return self._told

    def _hear(self) -> dict[str, Any]:
        import json
        import select

        out = self.process.stdout
        assert out is not None
        line = bytearray()
        while not line.endswith(b"\n"):
            left = self._begun + START - time.monotonic()
            ready, _, _ = select.select([out], [], [], max(left, 0.0)) if out.fileno() < 1024 else ([out], [], [])
            if not ready:
                raise self._failed(f"belljar was not ready after {START:g} s")
            piece = out.read(4096)
            if not piece:
                raise self._failed("belljar ended before it was ready")
            line += piece
        try:
            address = json.loads(line)
            if isinstance(address["socket"], str) and isinstance(address["api_key"], str):
                return dict(address)
        except (ValueError, KeyError, TypeError):
            pass
        raise self._failed(f"the first line of belljar is unexpected: {bytes(line[:200])!r}")

    def words(self) -> str:
        """Returns the server's last output, once it has ended."""
        self._listener.join(5.0)
        return bytes(self._words).decode("utf-8", "replace").strip()

    def _failed(self, message: str) -> RuntimeUnavailableError:
        self.stop()
        output = self.words()
        text, own, hint = output.rpartition("\nhint: ")  # belljar's own hint, if it gives one
        if not own:
            text, hint = output, "\"belljar doctor\" shows what this host can isolate"
        return RuntimeUnavailableError(f"{message}: {text}" if text else message, details={"output": output}, hint=hint)

    @property
    def alive(self) -> bool:
        return self.owner != os.getpid() or self.process.poll() is None

    def stop(self) -> None:
        """Stops the server, and waits for its end."""
        process = self.process
        for end in (None, process.terminate, process.kill):
            if end is None:
                _close(process.stdin)
            else:
                end()
            try:
                process.wait(LEAVE if end is None else 5.0)
                break
            except subprocess.TimeoutExpired:
                continue
        _close(process.stdout)

    def disown(self) -> None:
        """Closes the pipes to the server in a forked child: the server belongs to the parent."""
        self._lock = threading.Lock()
        self.process.returncode = 0
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            _close(pipe)


def _close(pipe: Optional[IO[Any]]) -> None:
    if pipe is not None:
        try:
            pipe.close()
        except OSError:
            pass


def _listen(pipe: IO[bytes], words: bytearray) -> None:
    """Keeps the server's last output. Without a reader the server would block."""
    try:
        while True:
            piece = os.read(pipe.fileno(), 4096)
            if not piece:
                break
            words += piece
            del words[:-_WORDS]
    except (OSError, ValueError):
        pass
    finally:
        _close(pipe)


class _Servers:
    """The servers of this process, by the commands that started them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # reentrant: the garbage collector may release a server during take
        self.by_command: dict[tuple[str, ...], _Server] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._forking, after_in_child=self._forked)

    def _forking(self) -> None:
        """Waits for servers that are still starting: the child may use them, but cannot read their output."""
        with self.lock:
            servers = list(self.by_command.values())
        for server in servers:
            try:
                server.ready()
            except BelljarError:
                pass  # the server's user gets the error

    def _forked(self) -> None:
        self.lock = threading.RLock()
        for server in self.by_command.values():
            server.disown()
        self.by_command.clear()

    def take(self, command: list[str]) -> _Server:
        with self.lock:
            server = self.by_command.get(tuple(command))
            if server is not None:
                server.holds += 1  # first, so that the garbage collector does not release the server meanwhile
                if server.alive:
                    return server
                server.holds -= 1
            server = self.by_command[tuple(command)] = _Server(command)
            server.holds = 1
            return server

    def give(self, server: _Server) -> None:
        """Releases a server, and ends it if it has no users."""
        if server.owner != os.getpid():
            return
        with self.lock:
            server.holds -= 1
            if server.holds > 0:
                return
            for command, known in list(self.by_command.items()):
                if known is server:
                    del self.by_command[command]
        server.stop()


_SERVERS = _Servers()


class Local:
    """A reference to a private belljar. The server starts at once, and ends when its last reference is closed or
    collected.

    ``data`` is a folder for the server's data; without one nothing is kept. ``settings`` are keys of
    docs/config.md. References with the same arguments share one server.
    """

    def __init__(self, binary: Optional[str] = None, data: Optional[str] = None, settings: Optional[Mapping[str, Any]] = None) -> None:
        command = [find(binary), "serve", "--private"]
        if data is not None:
            command += ["--data", os.path.abspath(os.fspath(data))]
        for name, value in sorted((settings or {}).items()):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if not name.replace("_", "").isalnum():
                raise InvalidRequestError(f"{name!r} is not the name of a setting", details={"field": "settings"})
            command += ["--set", f"{name}={text}"]
        self._server = _SERVERS.take(command)
        self._end = weakref.finalize(self, _SERVERS.give, self._server)

    def ready(self) -> dict[str, Any]:
        """Waits until the server answers, and returns the data that it announced: socket, api_key, pid, version."""
        try:
            return self._server.ready()
        except BelljarError:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self._end.alive and self._server.alive

    def over(self) -> UnreachableError:
        """Returns the error for each caller once the server has ended."""
        output = self._server.words()
        return UnreachableError(
            "the private belljar has ended" + (f": {output}" if output else ""), details={"output": output}, hint="make a new client; what ran in this one is gone"
        )

    def dead(self, seconds: float) -> bool:
        """Whether the server has ended, or ends within so many seconds."""
        if not self.alive:
            return True
        if self._server.owner != os.getpid():
            return False
        try:
            self._server.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def close(self) -> None:
        """Releases the server. A second call is not an error."""
        self._end()
