"""Images: root file systems on the server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, List, Optional, cast

from .. import _spec, errors
from .._address import path
from .._body import Body, Content
from .._retry import Passing
from .._wire_async import settle
from ..errors import InternalError, UnreachableError
from .incoming import AsyncIncoming
from .transport import Ask, AsyncTransport

if TYPE_CHECKING:
    from .. import types


LONGER = 600.0  # extra seconds for unpacking an archive


class AsyncImages:
    """The images on the server."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self) -> List[types.Image]:
        """Lists the images."""
        return cast("list[types.Image]", (await self._transport.ask(Ask("GET", path("images")), "items"))["items"])

    async def inspect(self, ref: str) -> types.Image:
        """Returns one image; NotFoundError if the server does not have it."""
        return cast("types.Image", await self._transport.ask(Ask("GET", path("images", "inspect"), values={"ref": ref})))

    async def pull(self, ref: str, *, progress: Optional[Callable[[types.ImageProgress], object]] = None) -> types.Image:
        """Makes the server pull an image, and returns when the image can be used. It calls ``progress`` with each step."""

        ask = Ask("POST", path("images", "pull"), {"ref": ref}, headers={"Accept": "text/event-stream"}, again=True)
        return await self._follow(ask, ref, progress)

    async def import_(
        self, archive: Content, name: Optional[str] = None, *, progress: Optional[Callable[[types.ImageProgress], object]] = None
    ) -> types.Image:
        """Imports an image from a tar archive, which may be compressed: an OCI layout, an archive of docker save, or a root file
        system.

        ``archive`` is bytes, or a file open for reading bytes. ``name`` is the image's name, by default the one in the archive.
        For operators.
        """
        ask = Ask(
            "POST", path("images", "import"), values={"name": name}, source=Body([archive]), longer=LONGER,
            headers={"Content-Type": "application/x-tar", "Accept": "text/event-stream"},
        )  # fmt: skip
        return await self._follow(ask, name or "", progress)

    async def tag(self, ref: str, name: str) -> types.Image:
        """Adds a name to an image. If another image has the name, the name moves. For operators."""
        return cast("types.Image", await self._transport.ask(Ask("POST", path("images", "tag"), {"ref": ref, "name": name}, again=True)))

    async def remove(self, ref: str) -> None:
        """Removes a name of an image. With the last name, or by digest, it removes the image. For operators."""
        await self._transport.ask(Ask("DELETE", path("images"), values={"ref": ref}, again=False))

    async def prune(
        self, *, unused_sec: Optional[float] = None, keep_bytes: Optional[int] = None, all: Optional[bool] = None
    ) -> types.ImagePruned:
        """Removes images that no sandbox uses: all of them, those unused for ``unused_sec``, or the least recently used ones until
        the rest has at most ``keep_bytes``. For operators."""
        body = _spec.given({"unused_sec": unused_sec, "keep_bytes": keep_bytes, "all": all})
        return cast("types.ImagePruned", await self._transport.ask(Ask("POST", path("images", "prune"), body), "images"))

    async def _follow(self, ask: Ask, ref: str, progress: Optional[Callable[[types.ImageProgress], object]]) -> types.Image:
        async def take(incoming: AsyncIncoming) -> types.Image:
            async with incoming:
                async for events in incoming.events():
                    for name, data in events:
                        event = _load(data)
                        if name == "progress" and progress is not None:
                            await settle(progress(cast("types.ImageProgress", event)))
                        elif name == "done":
                            return cast("types.Image", event)
                        elif name == "error":
                            raise errors.of_reply(event["error"])
            raise Passing(UnreachableError("the connection broke while the server made the image ready", details={"image": ref}))

        return await self._transport.repeat(ask, take)


def _load(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as e:
        raise InternalError(f"the stream cannot be read: {e}") from None
