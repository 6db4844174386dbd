# Made from _async/volumes.py by scripts/generate.py. Do not edit.
"""Volumes: workspaces on the server's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, cast

from .._address import path
from .transport import Ask, Transport

if TYPE_CHECKING:
    from .. import types


class Volumes:
    """The caller's volumes. ``sessions.create(workspace={"volume": name})`` makes a session with one as its workspace."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, mb: int) -> types.Volume:
        """Makes an empty volume; ConflictError if the name exists."""
        return cast("types.Volume", self._transport.ask(Ask("POST", path("volumes"), {"name": name, "mb": mb}), "name"))

    def get(self, name: str) -> types.Volume:
        """Returns a volume; NotFoundError if there is none."""
        return cast("types.Volume", self._transport.ask(Ask("GET", path("volumes", name)), "name"))

    def list(self) -> List[types.Volume]:
        """Lists the caller's volumes by name."""
        return cast("List[types.Volume]", (self._transport.ask(Ask("GET", path("volumes")), "items"))["items"])

    def remove(self, name: str) -> None:
        """Removes a volume with its files; ConflictError while a session or run uses it."""
        self._transport.ask(Ask("DELETE", path("volumes", name), again=False))
