"""Proxies from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

import ipaddress
import os
from base64 import b64encode
from collections.abc import Mapping
from typing import Optional
from urllib.parse import unquote, urlsplit

from .errors import InvalidRequestError

MAX_REPLY = 64 << 10  # bytes of a proxy's answer to CONNECT


class Proxy:
    """An HTTP proxy."""

    __slots__ = ("host", "port", "authorization")

    def __init__(self, text: str, name: str) -> None:
        try:
            parts = urlsplit(text if "://" in text else "http://" + text)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
            parts = urlsplit("")
        if parts.scheme != "http" or not host:
            raise InvalidRequestError(
                f"{name} is not the address of an HTTP proxy", details={"field": name}, hint="it looks like http://proxy.example:3128"
            )
        self.host, self.port = host, port or 80
        self.authorization = ""
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.authorization = "Basic " + b64encode(secret.encode("utf-8")).decode("ascii")

    def connect(self, host: str, port: int) -> bytes:
        """Returns the request for a tunnel to a server."""
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")

    def through(self, reply: bytes) -> bool:
        """Whether the tunnel is open; False if the answer is still incomplete."""
        if b"\r\n\r\n" not in reply:
            if len(reply) > MAX_REPLY:
                raise OSError(f"proxy {self} does not answer as one")
            return False
        first = reply.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        if len(first) < 2 or not first[0].startswith("HTTP/1."):
            raise OSError(f"proxy {self} does not answer as one")
        if first[1] != "200":
            raise OSError(f"proxy {self} refuses the connection: {' '.join(first[1:])}")
        return True

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def find(tls: bool, host: str, port: int, environ: Optional[Mapping[str, str]] = None) -> Optional[Proxy]:
    """Returns the environment's proxy for a server. Addresses of this machine have none."""
    env = os.environ if environ is None else environ
    for name in ["https_proxy" if tls else "http_proxy", "all_proxy"]:
        for spelled in (name, name.upper()):
            if spelled == "HTTP_PROXY" and "REQUEST_METHOD" in env:
                continue  # in a CGI program, a client's header sets this variable
            if env.get(spelled):
                return None if _direct(host, port, env.get("no_proxy") or env.get("NO_PROXY") or "") else Proxy(env[spelled], spelled)
    return None


def _direct(host: str, port: int, exempt: str) -> bool:
    host = host.lower().rstrip(".")
    try:
        ip: Optional[ipaddress._BaseAddress] = ipaddress.ip_address(host)
    except ValueError:
        ip = None
    if host == "localhost" or ip is not None and ip.is_loopback:
        return True
    return any(_matches(rule.strip().lower(), host, port, ip) for rule in exempt.split(","))


def _matches(rule: str, host: str, port: int, ip: Optional[ipaddress._BaseAddress]) -> bool:
    if not rule:
        return False
    if rule == "*":
        return True
    if ip is not None:
        try:
            return ip in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            pass
    name, _, number = rule.rpartition(":")
    if number.isdigit() and name and ":" not in name:
        if int(number) != port:
            return False
        rule = name
    rule = rule[1:] if rule.startswith("*.") else rule
    if rule.startswith("."):
        return host.endswith(rule)
    return host == rule or host.endswith("." + rule)
