"""The address of a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional
from urllib.parse import quote, urlencode, urlsplit

from . import _proxy
from .errors import InvalidRequestError

API = "/api/v1/sandbox"


class Address:
    """A server's address: ``http://127.0.0.1:8080``, ``https://belljar.example/prefix`` or ``unix:/run/belljar.sock``."""

    __slots__ = ("text", "tls", "host", "port", "socket", "base", "authority", "proxy")

    def __init__(self, text: str) -> None:
        self.text = text
        self.socket: Optional[str] = None
        self.tls, self.base = False, ""
        self.proxy: Optional[_proxy.Proxy] = None
        if text.startswith("unix:") and len(text) > 5:
            self.socket, self.host, self.port, self.authority = text[5:], "", 0, "belljar.local"
            return
        try:
            server = text.rstrip("/")
            if server.endswith(API):
                server = server[: -len(API)].rstrip("/")
            parts = urlsplit(server)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise _wrong(text) from None
        if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or parts.query or parts.fragment:
            raise _wrong(text)
        if not clean(text) or " " in text:
            raise _wrong(text)
        self.tls = parts.scheme == "https"
        self.host, self.port = host, port or (443 if self.tls else 80)
        self.authority, self.base = parts.netloc, parts.path
        try:
            ascii = host.encode("idna").decode("ascii")  # the name to connect to
            if ascii != host:
                self.host, self.authority = ascii, ascii if port is None else f"{ascii}:{port}"
            if not self.base.isascii():
                self.base = quote(self.base, safe="/%")
        except UnicodeError:
            raise _wrong(text) from None
        self.proxy = _proxy.find(self.tls, self.host, self.port)

    @property
    def relayed(self) -> bool:
        """Whether a proxy forwards the requests, as it does for unencrypted ones."""
        return self.proxy is not None and not self.tls

    def target(self, rest: str) -> str:
        """The target of a request: a path of the server, or the whole address for a proxy."""
        return ("http://" + self.authority if self.relayed else "") + self.base + rest

    def __str__(self) -> str:
        return self.socket or self.authority


def _wrong(text: str) -> InvalidRequestError:
    if "@" in text:  # the error must not repeat a password
        return InvalidRequestError(
            "the address of the server has a user or a password",
            details={"field": "url"},
            hint="leave it out, and give an API key",
        )
    return InvalidRequestError(
        f"{text!r} is not the address of a server", details={"field": "url"}, hint="it looks like http://127.0.0.1:8080"
    )


def clean(text: str) -> bool:
    """Whether a text may be part of the head of a request."""
    return not any(c < " " or c == "\x7f" for c in text)


def path(*parts: str) -> str:
    """A path below the API, each part escaped."""
    try:
        return API + "".join("/" + quote(part, safe="") for part in parts)
    except UnicodeEncodeError as e:
        raise InvalidRequestError(f"a name cannot be sent as UTF-8: {e}") from None


def query(values: Mapping[str, Any]) -> str:
    """The query of a request, with its question mark, without values that are None."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if value is None:
            continue
        several: Iterable[Any] = value if isinstance(value, (list, tuple)) else (value,)
        pairs += [(name, _text(one)) for one in several]
    try:
        return "?" + urlencode(pairs, quote_via=quote) if pairs else ""
    except UnicodeEncodeError as e:
        raise InvalidRequestError(f"a name cannot be sent as UTF-8: {e}") from None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
