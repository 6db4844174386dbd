"""Volumes: workspaces on the server's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, cast

from .._address import path
from .transport import Ask, AsyncTransport

if TYPE_CHECKING:
    from .. import types


class AsyncVolumes:
    """Volumes that the caller keeps. ``sessions.create(workspace={"volume": name})`` creates a session with one as its workspace."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, mb: int) -> types.Volume:
        """Creates an empty volume of ``mb`` MiB; ConflictError if the name is taken."""
        return cast("types.Volume", await self._transport.ask(Ask("POST", path("volumes"), {"name": name, "mb": mb}), "name"))

    async def get(self, name: str) -> types.Volume:
        """Returns a volume; NotFoundError if it does not exist."""
        return cast("types.Volume", await self._transport.ask(Ask("GET", path("volumes", name)), "name"))

    async def list(self) -> List[types.Volume]:
        """Lists the caller's volumes, sorted by name."""
        return cast("List[types.Volume]", (await self._transport.ask(Ask("GET", path("volumes")), "items"))["items"])

    async def remove(self, name: str) -> None:
        """Removes a volume with its files; ConflictError while a session or run uses it."""
        await self._transport.ask(Ask("DELETE", path("volumes", name), again=False))
