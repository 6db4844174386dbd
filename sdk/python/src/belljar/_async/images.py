"""Images: root file systems on the server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, List, Optional, cast

from .. import errors
from .._address import path
from .._retry import Passing
from ..errors import InternalError, UnreachableError
from .incoming import AsyncIncoming
from .transport import Ask, AsyncTransport

if TYPE_CHECKING:
    from .. import types


class AsyncImages:
    """The images on the server."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self) -> List[types.Image]:
        """The images that are there."""
        return cast("list[types.Image]", (await self._transport.ask(Ask("GET", path("images")), "items"))["items"])

    async def inspect(self, ref: str) -> types.Image:
        """One image; ImageUnavailableError or NotFoundError if it is not there."""
        return cast("types.Image", await self._transport.ask(Ask("GET", path("images", "inspect"), values={"ref": ref})))

    async def pull(self, ref: str, *, progress: Optional[Callable[[types.ImageProgress], None]] = None) -> types.Image:
        """Has the server fetch an image, and returns when it can be used. ``progress`` is told how it goes."""

        async def take(incoming: AsyncIncoming) -> types.Image:
            async with incoming:
                async for events in incoming.events():
                    for name, data in events:
                        told = _load(data)
                        if name == "progress" and progress is not None:
                            progress(cast("types.ImageProgress", told))
                        elif name == "done":
                            return cast("types.Image", told)
                        elif name == "error":
                            error = told["error"]
                            raise errors.of_code(error["code"])(
                                error["message"], code=error["code"], details=error.get("details"), hint=error.get("hint") or ""
                            )
            raise Passing(UnreachableError("the connection broke while the server made the image ready", details={"image": ref}))

        ask = Ask("POST", path("images", "pull"), {"ref": ref}, headers={"Accept": "text/event-stream"}, again=True)
        return await self._transport.repeat(ask, take)


def _load(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as e:
        raise InternalError(f"the stream cannot be read: {e}") from None
