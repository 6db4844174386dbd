# Made from _async/snapshots.py by scripts/generate.py. Do not edit.
"""Snapshots: the saved files of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, cast

from .. import _spec
from .._address import path
from .._body import Body, Content
from .files import Local
from .incoming import read_all, save_to
from .transport import Ask, Transport

if TYPE_CHECKING:
    from .. import types

LONGER = 600.0  # seconds more that an archive may take
PAGE = 200


class Snapshots:
    """Snapshots that the caller keeps. ``session.snapshot()`` makes one, ``sessions.create(snapshot=id)`` a session of it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, id: str) -> types.Snapshot:
        """A snapshot; NotFoundError if there is none."""
        return cast("types.Snapshot", self._transport.ask(Ask("GET", path("snapshots", id)), "snapshot_id"))

    def list(self) -> List[types.Snapshot]:
        """The caller's snapshots, newest first."""
        found: List[types.Snapshot] = []
        while True:
            page = self._transport.ask(Ask("GET", path("snapshots"), values={"limit": str(PAGE), "offset": str(len(found))}), "items")
            found += cast("list[types.Snapshot]", page["items"])
            if not page["items"] or not page.get("has_more"):
                return found

    def remove(self, id: str) -> None:
        """Removes a snapshot. Sessions and runs that were made of it keep their files."""
        self._transport.ask(Ask("DELETE", path("snapshots", id), again=False))

    def export(self, id: str) -> bytes:
        """A snapshot as a tar archive, whose SHA-256 is its digest."""
        return self._transport.repeat(self._archive(id), read_all)

    def save(self, id: str, local: Local) -> None:
        """Writes a snapshot into a local tar file, which is there when all of it has come."""
        self._transport.repeat(self._archive(id), save_to(local))

    def import_(self, archive: Content, name: Optional[str] = None) -> types.Snapshot:
        """Makes a snapshot of a tar archive, which may be compressed with gzip or zstd: bytes, or a file open for reading bytes."""
        ask = Ask(
            "POST", path("snapshots", "import"), values={"name": name}, source=Body([archive]), longer=LONGER, headers={"Content-Type": "application/x-tar"},
        )  # fmt: skip
        return cast("types.Snapshot", self._transport.ask(ask, "snapshot_id"))

    def _archive(self, id: str) -> Ask:
        return Ask("GET", path("snapshots", id, "archive"), headers={"Accept": "*/*", "Accept-Encoding": "identity"}, longer=LONGER)

    def _make(self, session: str, name: Optional[str], live: bool) -> types.Snapshot:
        ask = Ask("POST", path("sessions", session, "snapshots"), _spec.given({"name": name, "live": live or None}), longer=LONGER)
        return cast("types.Snapshot", self._transport.ask(ask, "snapshot_id"))
