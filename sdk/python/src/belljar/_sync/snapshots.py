# Made from _async/snapshots.py by scripts/generate.py. Do not edit.
"""Snapshots: the saved files of sessions."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Dict, List, Optional, cast

from .. import _spec
from .._address import path
from .._body import Body, Content
from .files import Local
from .incoming import read_all, save_to
from .transport import Ask, Transport

if TYPE_CHECKING:
    from .. import types

LONGER = 600.0  # extra seconds for an archive
PAGE = 200


class Snapshots:
    """The caller's snapshots. ``session.snapshot()`` makes one, ``sessions.create(snapshot=id)`` makes a session from it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, id: str) -> types.Snapshot:
        """Returns a snapshot; NotFoundError if there is none."""
        return cast("types.Snapshot", self._transport.ask(Ask("GET", path("snapshots", id)), "snapshot_id"))

    def list(self) -> List[types.Snapshot]:
        """Returns the caller's snapshots, newest first."""
        found: Dict[str, types.Snapshot] = {}  # by id: a new snapshot shifts the pages
        for offset in count(step=PAGE):
            page = self._transport.ask(Ask("GET", path("snapshots"), values={"limit": str(PAGE), "offset": str(offset)}), "items")
            found.update((x["snapshot_id"], x) for x in cast("List[types.Snapshot]", page["items"]))
            if not page["items"] or not page.get("has_more"):
                break
        return [*found.values()]

    def remove(self, id: str) -> None:
        """Removes a snapshot. Sessions and runs that began with it keep their files."""
        self._transport.ask(Ask("DELETE", path("snapshots", id), again=False))

    def export(self, id: str) -> bytes:
        """Returns a snapshot as a tar archive, whose SHA-256 is its digest."""
        return self._transport.repeat(self._archive(id), read_all)

    def save(self, id: str, local: Local) -> None:
        """Writes a snapshot to a local tar file, which appears when it is complete."""
        self._transport.repeat(self._archive(id), save_to(local))

    def import_(self, archive: Content, name: Optional[str] = None) -> types.Snapshot:
        """Makes a snapshot from a tar archive, which may be compressed with gzip or zstd: bytes, or a file open for reading bytes."""
        ask = Ask(
            "POST", path("snapshots", "import"), values={"name": name}, source=Body([archive]), longer=LONGER, headers={"Content-Type": "application/x-tar"},
        )  # fmt: skip
        return cast("types.Snapshot", self._transport.ask(ask, "snapshot_id"))

    def _archive(self, id: str) -> Ask:
        return Ask("GET", path("snapshots", id, "archive"), headers={"Accept": "*/*", "Accept-Encoding": "identity"}, longer=LONGER)

    def _make(self, session: str, name: Optional[str], live: bool) -> types.Snapshot:
        ask = Ask("POST", path("sessions", session, "snapshots"), _spec.given({"name": name, "live": live or None}), longer=LONGER)
        return cast("types.Snapshot", self._transport.ask(ask, "snapshot_id"))
