"""The secrets that a caller stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, cast

from .. import _spec
from .._address import path
from .transport import Ask, AsyncTransport

if TYPE_CHECKING:
    from .. import types


class AsyncSecrets:
    """Stored secrets, which runs and sessions name: ``secrets={"TOKEN": {"from": "TOKEN"}}``. The server never returns the values."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def set(self, name: str, value: str, *, shared: Optional[bool] = None) -> types.StoredSecret:
        """Stores a secret, or gives an existing one a new value. ``shared`` is for operators: every user may use it."""
        body = _spec.given({"value": value, "shared": shared})
        return cast("types.StoredSecret", await self._transport.ask(Ask("PUT", path("secrets", name), body), "name"))

    async def list(self) -> List[types.StoredSecret]:
        """Lists the caller's own secrets and the shared ones, without their values."""
        return cast("list[types.StoredSecret]", (await self._transport.ask(Ask("GET", path("secrets")), "items"))["items"])

    async def remove(self, name: str, *, shared: bool = False) -> None:
        """Removes a secret. Existing runs and sessions with it keep it."""
        await self._transport.ask(Ask("DELETE", path("secrets", name), values={"shared": "true"} if shared else None, again=False))
