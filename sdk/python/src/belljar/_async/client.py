"""The client for a server, or for a private belljar."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Union, cast

from .. import _spec
from .._address import Address, path
from .._local import Local
from .._retry import PATIENCE, SILENCE
from ..errors import InvalidRequestError
from .admin import AsyncAdmin, AsyncTokens
from .images import AsyncImages
from .runs import AsyncRuns
from .secrets import AsyncSecrets
from .sessions import AsyncSessions
from .snapshots import AsyncSnapshots
from .terminals import AsyncTerminals
from .transport import Ask, AsyncTransport
from .templates import AsyncTemplates
from .volumes import AsyncVolumes

if TYPE_CHECKING:
    from .. import types


class AsyncBelljar:
    """A server, as one caller sees it. Use it in a ``with`` statement, or close it.

    ``url`` is ``http://…``, ``https://…`` or ``unix:/path/to/socket``, by default $BELLJAR_SERVER. ``api_key`` is by default
    $BELLJAR_API_KEY; pass a JWT as ``bearer``. ``patience`` is the number of seconds after its first failure for which a
    request is retried while the server is unreachable or asks to wait. A log that has begun is retried for ten times as long. 0
    disables retries. ``silence`` is the number of seconds for which the server may send nothing while the client waits for an
    answer. ``source`` is recorded in the server's audit trail. The client uses HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY,
    except for addresses of this machine.

    Only requests that are safe to repeat are retried: reads, and those that create something with an Idempotency-Key.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        api_key: Optional[str] = None,
        bearer: Optional[str] = None,
        patience: float = PATIENCE,
        silence: float = SILENCE,
        source: str = "python",
    ) -> None:
        where = url or os.environ.get("BELLJAR_SERVER")
        if not where:
            raise InvalidRequestError(
                "no server is named", details={"field": "url"}, hint="give its address, set BELLJAR_SERVER, or start one: .local()"
            )
        if api_key is None and bearer is None:
            api_key = os.environ.get("BELLJAR_API_KEY")
        self._begin(AsyncTransport(Address(where), api_key=api_key, bearer=bearer, patience=patience, silence=silence, source=source))

    @classmethod
    def local(
        cls,
        *,
        binary: Optional[str] = None,
        data: Optional[Union[str, os.PathLike[str]]] = None,
        settings: Optional[Mapping[str, Any]] = None,
        patience: float = PATIENCE,
        silence: float = SILENCE,
        source: str = "python",
    ) -> AsyncBelljar:
        """Starts a private belljar on a socket, which ends with the client or the program.

        ``binary`` is the path of belljar, by default $BELLJAR_BIN or ``belljar`` on the PATH. ``data`` is a folder for its
        data; without one, nothing is kept. ``settings`` are keys of docs/config.md.
        """
        self = cls.__new__(cls)
        local = Local(binary, None if data is None else os.fspath(data), settings)
        self._begin(AsyncTransport(local, patience=patience, silence=silence, source=source))
        return self

    def _begin(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self.runs = AsyncRuns(transport)
        self.sessions = AsyncSessions(transport, self.runs)
        self.images = AsyncImages(transport)
        self.terminals = AsyncTerminals(transport)
        self.secrets = AsyncSecrets(transport)
        self.snapshots = AsyncSnapshots(transport)
        self.templates = AsyncTemplates(transport)
        self.volumes = AsyncVolumes(transport)
        self.admin = AsyncAdmin(transport)
        self.tokens = AsyncTokens(transport)
        self.run = self.runs.run

    async def runtimes(self) -> types.Discovery:
        """Returns the server's runtimes, with the reason for each that does not work."""
        return cast("types.Discovery", await self._transport.ask(Ask("GET", path("runtimes"))))

    async def me(self) -> types.Me:
        """Returns the caller, with the policy in force, the quotas and their usage."""
        return cast("types.Me", await self._transport.ask(Ask("GET", path("me"))))

    async def check_network(
        self,
        url: str,
        *,
        session: Optional[str] = None,
        network_policy: Optional[str] = None,
        egress: Optional[types.Egress] = None,
    ) -> types.NetworkCheck:
        """Returns whether a program could connect to a URL, and why, without connecting."""
        spec = _spec.given({"url": url, "session_id": session, "network_policy": network_policy, "egress": egress})
        return cast("types.NetworkCheck", await self._transport.ask(Ask("POST", path("network", "check"), spec)))

    async def network_presets(self, image: Optional[str] = None) -> list[types.NetworkPreset]:
        """Returns the indexes and hosts of each preset of ``egress`` in an image (default ``host``), or why the preset cannot be used."""
        answer = await self._transport.ask(Ask("GET", path("network", "presets"), values={"base_image": image} if image else None, longer=120.0), "items")
        return cast("list[types.NetworkPreset]", answer["items"] or [])

    async def close(self) -> None:
        """Closes the connections, and ends the client's private belljar. Runs and sessions on a server continue."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncBelljar:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()
