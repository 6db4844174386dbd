"""The thread API's client: a session for each thread of a conversation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Optional, Union, cast

# The imports for starting a belljar come first; the rest is loaded while it starts.
from .._local import Local
from .._wire_async import aside
from ..errors import BelljarError, ConflictError, InternalError, NotFoundError, SessionExpiredError, UnreachableError

if TYPE_CHECKING:
    from .._body import Body
    from .transport import AsyncTransport

NO_SESSION = "No active session. Call get_or_create_session() first."
DYING = 2.0  # seconds that a belljar may take to exit once its connections break
GRACE = 60.0  # extra seconds for the answer, beyond the command's own time


class AsyncSandboxClient:
    """A sandbox for each thread. Files persist between commands; the current directory and variables do not.

    ``mode="local"`` starts a private belljar (no port, no configuration; clients of one program share it).
    ``mode="remote"`` uses the server at ``server_url`` with ``api_key``, by default $BELLJAR_API_KEY. It
    finds the server's thread API at ``/thread`` or at the root.

    At the end of a ``with`` statement the client ends the session and the private belljar.
    """

    def __init__(
        self,
        mode: Literal["local", "remote"] = "local",
        server_url: Optional[str] = None,
        *,
        api_key: Optional[str] = None,
        binary: Optional[str] = None,
        data: Optional[Union[str, os.PathLike[str]]] = None,
        settings: Optional[Mapping[str, Any]] = None,
        patience: float = 30.0,
    ) -> None:
        if mode not in ("local", "remote"):
            raise ValueError(f"mode is local or remote, not {mode!r}")
        self.mode = mode
        self.server_url = server_url.rstrip("/") if server_url else None
        self.session_id: Optional[str] = None
        self.thread_id: Optional[str] = None
        self.user_id: Optional[str] = None
        self._minutes = 30.0
        self._api_key, self._patience = api_key, patience
        self._own = (binary, None if data is None else os.fspath(data), settings)
        self._transport: Optional[AsyncTransport] = None
        self._prefixes = ["/thread"] if mode == "local" else ["/thread", ""]  # in the order of attempts
        if mode == "remote" and self.server_url is None:
            raise ValueError("server_url required for remote mode")
        if mode == "remote" and (self.server_url or "").endswith("/thread"):
            self._prefixes = [""]
        self._connect()

    def _connect(self) -> AsyncTransport:
        """Returns the transport to the server. It starts a new private belljar if the old one has died."""
        known = self._transport
        if known is not None and (known.local is None or known.local.alive):
            return known
        if known is not None:
            known.cut()
        local = Local(*self._own) if self.mode == "local" else None
        from .._address import Address
        from .transport import AsyncTransport

        key = None
        if local is None:
            assert self.server_url is not None
            key = os.environ.get("BELLJAR_API_KEY") if self._api_key is None else self._api_key
        self._transport = AsyncTransport(local or Address(self.server_url or ""), api_key=key, patience=self._patience)
        return self._transport

    async def get_or_create_session(self, user_id: str, thread_id: str, timeout_minutes: float = 30) -> dict[str, Any]:
        """Returns the thread's session, or a new one: a dict with session_id, thread_id, status and workspace_dir.

        ``user_id`` is a label. ``timeout_minutes`` is how long the session lives after its last use.
        """
        self._connect()
        try:
            found = await self._ask("GET", "get_session", values={"thread_id": thread_id})
        except NotFoundError:
            body = {"user_id": user_id, "thread_id": thread_id, "timeout_minutes": timeout_minutes}
            # 409 returns the session that another caller has just created.
            found = await self._ask("POST", "create_session", body, again=True, accept=(409,), longer=GRACE)
            if "session_id" not in found:
                raise ConflictError(str(found.get("error") or "the session cannot be made"), status=409, details=found) from None
        self.session_id = str(found["session_id"])
        self.thread_id, self.user_id, self._minutes = thread_id, user_id, timeout_minutes
        return found

    async def execute(self, command: str, timeout: float = 30, auto_retry: bool = True) -> dict[str, Any]:
        """Runs a line of bash: a dict with exit_code, stdout, stderr and execution_time_ms.

        ``timeout`` is in seconds; a command that exceeds it has exit code 124. If the session has expired, the client creates a new
        one for the thread and runs the command there. It raises SessionExpiredError if ``auto_retry`` is false, or if the private
        belljar dies while a command runs; the command is not sent again.
        """
        if not self.session_id:
            raise ValueError(NO_SESSION)
        try:
            return await self._execute(command, timeout)
        except SessionExpiredError as e:
            if not auto_retry or self.thread_id is None or e.__cause__ is not None:
                raise
            _log("info", f"Session expired for thread {self.thread_id}, recreating...")
            await self.get_or_create_session(self.user_id or "", self.thread_id, self._minutes)
            return await self._execute(command, timeout)

    async def _execute(self, command: str, timeout: float) -> dict[str, Any]:
        body = {"session_id": self.session_id, "command": command, "timeout": timeout}
        return await self._in_session("POST", "execute", body, longer=timeout + GRACE)

    async def upload_file(self, file_path: Union[str, os.PathLike[str]], remote_name: Optional[str] = None) -> dict[str, Any]:
        """Writes a local file to the workspace, by default under its own name.

        Returns a dict with status, filename, path and size_bytes. FileNotFoundError if the local file does not exist.
        """
        if not self.session_id:
            raise ValueError(NO_SESSION)
        name = os.fspath(file_path)
        if not os.path.exists(name):
            raise FileNotFoundError(f"File not found: {name}")
        file = await aside(open, name, "rb")
        try:
            body, kind = _form(self.session_id, remote_name or os.path.basename(name), file)
            return await self._in_session("POST", "upload_file", source=body, headers={"Content-Type": kind}, longer=GRACE)
        finally:
            file.close()

    async def download_file(self, remote_name: str, local_path: Optional[Union[str, os.PathLike[str]]] = None) -> str:
        """Writes a file of the workspace to a local file, by default in the current folder, and returns the local path.

        NotFoundError if the workspace has no such file. The local file appears when it is complete.
        """
        if not self.session_id:
            raise ValueError(NO_SESSION)
        if local_path:
            path = os.fspath(local_path)
        else:
            path = os.path.join(os.getcwd(), remote_name)
        body = {"session_id": self.session_id, "filename": remote_name}
        await self._in_session("POST", "download_file", body, again=True, longer=GRACE, headers={"Accept": "*/*"}, save=path, folders=not local_path)
        return path

    async def list_files(self) -> dict[str, Any]:
        """Lists the workspace, newest first: a dict with files, total_files and total_size_bytes."""
        if not self.session_id:
            raise ValueError(NO_SESSION)
        return await self._in_session("GET", "list_files", values={"session_id": self.session_id}, longer=GRACE)

    async def close_session(self) -> None:
        """Ends the session. If that fails, it logs the error, and the session expires."""
        if self.session_id:
            try:
                if self._transport is not None and (self._transport.local is None or self._transport.local.alive):
                    await self._ask("POST", "cleanup", {"session_id": self.session_id}, again=True)
            except Exception as e:
                _log("warning", f"Cleanup failed: {e}")
            finally:
                self.session_id = self.thread_id = self.user_id = None

    async def close(self) -> None:
        """Ends the session and the client's private belljar. The client can be used again."""
        try:
            await self.close_session()
        finally:
            transport, self._transport = self._transport, None
            if transport is not None:
                await transport.close()

    async def __aenter__(self) -> AsyncSandboxClient:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    async def _in_session(self, method: str, op: str, body: Any = None, **how: Any) -> dict[str, Any]:
        """Sends a request to the session; SessionExpiredError if it no longer exists, with a cause if the request may have been sent."""
        known = self._transport
        own = None if known is None else known.local
        if own is not None and not own.alive:
            raise await self._lost()
        try:
            return await self._ask(method, op, body, **how)
        except UnreachableError as e:
            if own is None or not await aside(own.dead, DYING):
                raise
            raise await self._lost() from e
        except NotFoundError as e:
            if "filename" in e.details:
                raise
            raise SessionExpiredError(
                e.message, status=e.status, details=e.details, hint=e.hint or "get_or_create_session makes a new one", request_id=e.request_id
            ) from None

    async def _lost(self) -> SessionExpiredError:
        """Drops a private belljar that has died; its sandboxes are gone."""
        known, self._transport = self._transport, None
        if known is not None:
            await known.close()
        return SessionExpiredError("the belljar of this session has ended", details={"session_id": self.session_id})

    async def _ask(self, method: str, op: str, body: Any = None, save: Optional[str] = None, folders: bool = False, **how: Any) -> dict[str, Any]:
        from .incoming import save_to
        from .transport import Ask

        transport = self._connect()
        for prefix in list(self._prefixes):
            ask = Ask(method, f"{prefix}/{op}", body, **how)
            try:
                if save is None:
                    answer = await transport.ask(ask)
                    if not isinstance(answer, dict):
                        raise InternalError("the server's answer is none of its thread API")
                else:
                    await transport.repeat(ask, save_to(save, folders))
                    answer = {}
            except BelljarError as e:
                if len(self._prefixes) > 1 and prefix != self._prefixes[-1] and _elsewhere(e):
                    continue
                if e.status in (404, 405) and not _elsewhere(e):
                    self._prefixes = [prefix]
                raise
            self._prefixes = [prefix]
            return cast("dict[str, Any]", answer)
        raise AssertionError("there is a prefix")


def _elsewhere(error: BelljarError) -> bool:
    """Whether an answer means that there is no such API at this path, rather than no such thing in it."""
    if error.status is None:
        return False
    known = any(name in error.details for name in ("thread_id", "session_id", "filename"))
    return error.status in (404, 405) and not known and "session" not in error.message.lower()


def _form(session: str, name: str, file: Any) -> tuple[Body, str]:
    """A multipart form with a file, and its content type."""
    from .._body import Body

    boundary = "belljar-" + os.urandom(16).hex()
    quoted = name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    head = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in (("session_id", session), ("filename", name))
    )
    head += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
    head += "Content-Type: application/octet-stream\r\n\r\n"
    return Body([head, file, f"\r\n--{boundary}--\r\n"]), f"multipart/form-data; boundary={boundary}"


def _log(level: str, text: str) -> None:
    import logging

    getattr(logging.getLogger("belljar"), level)(text)
