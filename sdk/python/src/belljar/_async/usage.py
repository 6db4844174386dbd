"""The resource usage of a live sandbox."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

from .. import errors
from .._retry import Passing
from ..errors import InternalError, UnreachableError
from .incoming import AsyncIncoming
from .transport import Ask, AsyncTransport

if TYPE_CHECKING:
    from .. import types


async def watch_usage(transport: AsyncTransport, at: str) -> AsyncIterator[types.UsageSample]:
    """Yields samples until the run or session has ended. A broken connection ends it with an error: the server keeps no samples."""

    async def take(incoming: AsyncIncoming) -> AsyncIncoming:
        return incoming

    try:
        async with await transport.repeat(Ask("GET", at, headers={"Accept": "text/event-stream"}), take) as answer:
            async for events in answer.events():
                for name, data in events:
                    if name == "end":
                        return
                    if name not in ("usage", "error"):  # of a newer server
                        continue
                    try:
                        message = json.loads(data)
                    except ValueError as e:
                        raise InternalError(f"the stream cannot be read: {e}") from None
                    if name == "error":
                        raise errors.of_reply(message["error"])
                    yield cast("types.UsageSample", message)
    except Passing as failure:
        raise failure.error from failure.__cause__
    raise UnreachableError("the connection broke while the usage was watched", hint="watch again")
