# Made from _async/client.py by scripts/generate.py. Do not edit.
"""Belljar over the network, or of one's own."""

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
from .admin import Admin, Tokens
from .images import Images
from .runs import Runs
from .secrets import Secrets
from .sessions import Sessions
from .snapshots import Snapshots
from .terminals import Terminals
from .transport import Ask, Transport
from .templates import Templates
from .volumes import Volumes

if TYPE_CHECKING:
    from .. import types


class Belljar:
    """A server, as one caller sees it. Use it in a ``with`` statement, or close it.

    ``url`` is ``http://…``, ``https://…`` or ``unix:/path/to/socket``; without one it is $BELLJAR_SERVER's. ``api_key``
    is $BELLJAR_API_KEY if it is not given; a JWT goes into ``bearer``. ``patience`` is for how many seconds a request is
    repeated while the server is away or asks to wait; a log that has begun is waited for ten times as long. 0 repeats nothing.
    HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY are heeded, but for an address of this machine.
    ``silence`` is how many seconds the server may say nothing while it owes an answer. ``source`` stands in the
    server's audit trail.

    Requests are repeated only where that does nothing twice: those that read, and those that make something and carry
    an Idempotency-Key for that.
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
        self._begin(Transport(Address(where), api_key=api_key, bearer=bearer, patience=patience, silence=silence, source=source))

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
    ) -> Belljar:
        """Starts a belljar of this program's own, on a private socket, which ends with the client or the program.

        ``binary`` is the program, $BELLJAR_BIN or ``belljar`` on PATH if it is not given. ``data`` is a folder that keeps
        what it does; without one nothing is kept. ``settings`` are keys of docs/config.md.
        """
        self = cls.__new__(cls)
        local = Local(binary, None if data is None else os.fspath(data), settings)
        self._begin(Transport(local, patience=patience, silence=silence, source=source))
        return self

    def _begin(self, transport: Transport) -> None:
        self._transport = transport
        self.runs = Runs(transport)
        self.sessions = Sessions(transport, self.runs)
        self.images = Images(transport)
        self.terminals = Terminals(transport)
        self.secrets = Secrets(transport)
        self.snapshots = Snapshots(transport)
        self.templates = Templates(transport)
        self.volumes = Volumes(transport)
        self.admin = Admin(transport)
        self.tokens = Tokens(transport)
        self.run = self.runs.run

    def runtimes(self) -> types.Discovery:
        """What the server can do, and why something does not work."""
        return cast("types.Discovery", self._transport.ask(Ask("GET", path("runtimes"))))

    def me(self) -> types.Me:
        """Who the caller is: the policy in force for him, his quotas, and what is used of them."""
        return cast("types.Me", self._transport.ask(Ask("GET", path("me"))))

    def check_network(
        self,
        url: str,
        *,
        session: Optional[str] = None,
        network_policy: Optional[str] = None,
        egress: Optional[types.Egress] = None,
    ) -> types.NetworkCheck:
        """What would happen to a URL, and why, without connecting to it."""
        spec = _spec.given({"url": url, "session_id": session, "network_policy": network_policy, "egress": egress})
        return cast("types.NetworkCheck", self._transport.ask(Ask("POST", path("network", "check"), spec)))

    def network_presets(self, image: Optional[str] = None) -> list[types.NetworkPreset]:
        """What the presets of ``egress`` stand for in an image, by default the host's, or why they cannot be used."""
        answer = self._transport.ask(Ask("GET", path("network", "presets"), values={"base_image": image} if image else None, longer=120.0), "items")
        return cast("list[types.NetworkPreset]", answer["items"] or [])

    def close(self) -> None:
        """Closes its connections, and ends a belljar of its own. Runs and sessions on a server live on."""
        self._transport.close()

    def __enter__(self) -> Belljar:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()
