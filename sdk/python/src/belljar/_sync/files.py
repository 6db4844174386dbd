# Made from _async/files.py by scripts/generate.py. Do not edit.
"""The files in a session's workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, List, Optional, Union, cast

from .. import _spec
from .._address import path
from .._body import Body, Content
from .._listing import Listing
from .._wire import aside
from ..errors import InvalidRequestError, NotFoundError, UnreachableError
from .incoming import BROKE_OFF, Incoming, read_all, save_to
from .transport import Ask, Transport, T

if TYPE_CHECKING:
    from .. import types

Local = Union[str, "os.PathLike[str]"]
LONGER = 60.0  # extra seconds for an answer that waits for a sandbox
BYTES = {"Accept": "*/*"}


class Files:
    """A session's workspace. ``x`` and ``/workspace/x`` are the same file."""

    def __init__(self, transport: Transport, session: str) -> None:
        self._transport, self._session = transport, session

    def _path(self, op: str) -> str:
        return path("sessions", self._session, "fs", op)

    def _ask(self, op: str, body: dict[str, Any], again: bool, *fields: str) -> Any:
        return self._transport.ask(Ask("POST", self._path(op), _spec.given(body), again=again, longer=LONGER), *fields)

    def write(
        self, name: str, contents: Content, *, overwrite: bool = False, mode: Optional[int] = None, if_match: Optional[str] = None
    ) -> types.FileEntry:
        """Writes a file, whole or not at all: bytes, text as UTF-8, or a file open for reading bytes.

        An existing file is a ConflictError unless ``overwrite``. ``mode`` sets the permission bits. By default they
        are those of the file that is replaced, and 0o644 for a new one.

        With ``if_match``, the file is replaced only if it has that ETag (the ``etag`` of an earlier write, or the SHA-256 of its
        contents in hexadecimal, in double quotes), or with ``"*"`` if it exists. Otherwise it raises PreconditionFailedError.
        ``overwrite`` is then not needed.
        """
        source = Body([contents])
        values = {"path": name, "overwrite": True if overwrite else None, "mode": None if mode is None else f"{mode:04o}"}
        # Repeated, a write that may not replace a file, or only a certain one, would conflict with its own first attempt.
        ask = Ask(
            "PUT", self._path("raw"), values=values, source=source, again=overwrite and if_match is None, longer=LONGER,
            headers={"Content-Type": "application/octet-stream", **({} if if_match is None else {"If-Match": if_match})},
        )  # fmt: skip
        return cast("types.FileEntry", (self._transport.ask(ask, "entry"))["entry"])

    def write_all(self, files: Mapping[str, Content], *, overwrite: bool = False) -> List[types.FileEntry]:
        """Writes many small files, all of them or none: at most 1,000 files and 2 MiB in total."""
        body = {"files": [{"path": name, "contents_b64": _spec.base64(data)} for name, data in files.items()], "overwrite": overwrite}
        return cast("list[types.FileEntry]", (self._ask("batch", body, overwrite, "entries"))["entries"])

    def upload(self, local: Local, name: Optional[str] = None, *, overwrite: bool = False) -> types.FileEntry:
        """Writes the contents of a local file to the workspace, by default under its own name."""
        file = aside(open, local, "rb")
        try:
            return self.write(name or os.path.basename(os.fspath(local)), file, overwrite=overwrite)
        finally:
            file.close()

    def read(self, name: str, *, offset: int = 0, limit: Optional[int] = None) -> bytes:
        """Returns at most ``limit`` bytes of a file, starting at ``offset``."""
        if offset < 0 or limit is not None and limit < 0:
            raise InvalidRequestError("offset and limit must not be negative", details={"field": "offset"})
        if limit == 0:
            self.stat(name)
            return b""
        headers = dict(BYTES)
        if offset or limit is not None:
            headers["Range"] = f"bytes={offset}-" + ("" if limit is None else str(offset + limit - 1))
        ask = Ask("GET", self._path("raw"), values={"path": name}, headers=headers, longer=LONGER)

        def take(incoming: Incoming) -> bytes:
            with incoming:
                data = incoming.read(1 << 62)
            if "Range" in headers and incoming.head.status != 206:  # a server or proxy in between does not support ranges
                data = data[offset:] if limit is None else data[offset : offset + limit]
            return data

        try:
            return self._transport.repeat(ask, take)
        except InvalidRequestError as e:
            if e.details.get("field") == "Range" and "size" in e.details:  # the file ends before the offset
                return b""
            raise

    def read_text(self, name: str, *, errors: str = "strict") -> str:
        """Returns a file as text in UTF-8. ``errors`` is as for bytes.decode."""
        return (self.read(name)).decode("utf-8", errors)

    def download(self, name: str, local: Local) -> None:
        """Writes a file to a local file, which appears when it is complete."""
        ask = Ask("GET", self._path("raw"), values={"path": name}, headers=BYTES, longer=LONGER)
        self._transport.repeat(ask, save_to(local))

    def stat(self, name: str) -> types.FileEntry:
        """Describes the file, folder or link at a path; links are not followed. NotFoundError if there is none."""
        return cast("types.FileEntry", self._ask("stat", {"path": name}, True))

    def exists(self, name: str) -> bool:
        """Returns whether a path exists."""
        try:
            self.stat(name)
        except NotFoundError as e:
            if "path" not in e.details:  # the session does not exist
                raise
            return False
        return True

    def list(self, name: str = ".", *, recursive: bool = False, limit: Optional[int] = None) -> Listing:
        """Lists a folder, by path; with ``recursive`` also its subfolders. ``limit`` is 1,000 by default, at most 10,000.

        The list's ``truncated`` states whether the folder has more entries.
        """
        body = {"path": name, "recursive": recursive, "limit": limit}
        return Listing(self._ask("list", body, True, "entries"))

    def mkdir(self, name: str, *, mode: Optional[int] = None) -> None:
        """Makes a folder and its parents. An existing folder is not an error."""
        self._ask("mkdir", {"path": name, "mode": None if mode is None else f"{mode:04o}"}, True)

    def rename(self, source: str, to: str, *, overwrite: bool = False) -> None:
        """Moves a file or folder."""
        self._ask("rename", {"from": source, "to": to, "overwrite": overwrite}, False)

    def delete(self, name: str, *, recursive: bool = False) -> None:
        """Removes a file or folder; with ``recursive`` also the contents of the folder."""
        self._ask("delete", {"path": name, "recursive": recursive}, False)

    def search(
        self,
        *,
        name: Optional[str] = None,
        content: Optional[str] = None,
        regexp: bool = False,
        ignore_case: bool = False,
        path: Optional[str] = None,
        max_results: Optional[int] = None,
    ) -> types.FileMatches:
        """Finds files by name (``*.py``, ``src/**/*.ts``), by content (text, or an RE2 expression with ``regexp``), or both."""
        body = {
            "name": name, "content": content, "regexp": regexp, "ignore_case": ignore_case, "path": path, "max_results": max_results,
        }  # fmt: skip
        return cast("types.FileMatches", self._ask("search", body, True))

    def _archive(self, name: str, format: str) -> Ask:
        return Ask("GET", self._path("archive"), values={"path": name, "format": format}, headers=BYTES, longer=LONGER)

    def archive(self, name: str = ".", *, format: str = "tar") -> bytes:
        """Returns a folder as an archive: tar, tar.gz or zip."""
        return self._packed(self._archive(name, format), read_all)

    def save_archive(self, local: Local, name: str = ".", *, format: str = "tar") -> None:
        """Writes a folder's archive to a local file, which appears when it is complete."""
        self._packed(self._archive(name, format), save_to(local))

    def _packed(self, ask: Ask, take: Callable[[Incoming], T]) -> T:
        try:
            return self._transport.repeat(ask, take)
        except UnreachableError as e:
            if e.message.startswith(BROKE_OFF):
                e.hint = f"a file in it may be unreadable or changing, which the server's log shows; otherwise {e.hint}"
            raise

    def unpack(self, archive: Content, *, format: str = "tar", dir: Optional[str] = None) -> types.UploadResult:
        """Unpacks an archive (tar, tar.gz or zip) into the workspace, all of it or nothing."""
        kinds = {"tar": "application/x-tar", "tar.gz": "application/gzip", "zip": "application/zip"}
        if format not in kinds:
            raise InvalidRequestError(f"format {format!r} is none of {', '.join(kinds)}", details={"field": "format"})
        ask = Ask(
            "POST", path("sessions", self._session, "files"), values={"dir": dir}, source=Body([archive]), headers={"Content-Type": kinds[format]},
            again=False, longer=LONGER,
        )  # fmt: skip
        return cast("types.UploadResult", self._transport.ask(ask))

    def space(self) -> types.Space:
        """Returns the used and total space of the workspace."""
        return cast("types.Space", self._transport.ask(Ask("GET", self._path("space"), longer=LONGER)))
