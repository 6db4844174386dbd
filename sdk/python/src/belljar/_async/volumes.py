"""Volumes: workspaces on the server's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, cast

from .._address import path
from .transport import Ask, AsyncTransport

if TYPE_CHECKING:
    from .. import types


class AsyncVolumes:
    """The caller's volumes. ``sessions.create(workspace={"volume": name})`` makes a session with one as its workspace."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, mb: int) -> types.Volume:
        """Makes an empty volume; ConflictError if the name exists."""
        return cast("types.Volume", await self._transport.ask(Ask("POST", path("volumes"), {"name": name, "mb": mb}), "name"))

    async def get(self, name: str) -> types.Volume:
        """Returns a volume; NotFoundError if there is none."""
        return cast("types.Volume", await self._transport.ask(Ask("GET", path("volumes", name)), "name"))

    async def list(self) -> List[types.Volume]:
        """Lists the caller's volumes by name."""
        return cast("List[types.Volume]", (await self._transport.ask(Ask("GET", path("volumes")), "items"))["items"])

    async def remove(self, name: str) -> None:
        """Removes a volume with its files; ConflictError while a session or run uses it."""
        await self._transport.ask(Ask("DELETE", path("volumes", name), again=False))
