"""Proxies: the environment selects them, and all traffic goes through them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, Optional

import pytest
from conftest import KEY, Server, got

import belljar as b
from belljar import _proxy


@pytest.mark.parametrize(
    ("env", "tls", "host", "port", "proxy"),
    [
        ({}, False, "a.example", 80, None),
        ({"HTTP_PROXY": "http://p:3128"}, False, "a.example", 80, "p:3128"),
        ({"HTTP_PROXY": "p:3128"}, False, "a.example", 80, "p:3128"),
        ({"http_proxy": "http://low", "HTTP_PROXY": "http://up"}, False, "a.example", 80, "low:80"),
        ({"HTTP_PROXY": "http://p", "REQUEST_METHOD": "GET"}, False, "a.example", 80, None),
        ({"HTTP_PROXY": "http://p"}, True, "a.example", 443, None),
        ({"HTTPS_PROXY": "http://p"}, True, "a.example", 443, "p:80"),
        ({"ALL_PROXY": "http://p"}, True, "a.example", 443, "p:80"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "*"}, True, "a.example", 443, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "x, example"}, True, "a.example", 443, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": ".example"}, True, "a.EXAMPLE.", 443, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "*.example"}, True, "a.example", 443, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": ".a.example"}, True, "a.example", 443, "p:80"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "le"}, True, "a.example", 443, "p:80"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.example:443"}, True, "a.example", 443, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.example:80"}, True, "a.example", 443, "p:80"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, False, "10.1.2.3", 80, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, False, "11.1.2.3", 80, "p:80"),
        ({"ALL_PROXY": "http://p"}, False, "127.0.0.5", 80, None),
        ({"ALL_PROXY": "http://p"}, False, "::1", 80, None),
        ({"ALL_PROXY": "http://p"}, False, "localhost", 80, None),
    ],
)
def test_whom(env: dict[str, str], tls: bool, host: str, port: int, proxy: Optional[str]) -> None:
    found = _proxy.find(tls, host, port, env)
    assert (found and str(found)) == proxy


@pytest.mark.parametrize("text", ["socks5://p:1080", "https://p", "http://", "http://p:port"])
def test_no_proxy(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", text)
    with pytest.raises(b.InvalidRequestError, match="HTTP_PROXY"):
        b.Belljar("http://belljar.example")


class Middle:
    """A proxy in front of a server, which it reaches under every name."""

    def __init__(self, socket_path: str) -> None:
        self.path = socket_path
        self.heads: list[str] = []
        self.refuses = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://user:pass%20word@127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(65536)
            if not piece:
                client.close()
                return
            head += piece
        self.heads.append(head.split(b"\r\n\r\n")[0].decode("latin-1"))
        if self.refuses:
            client.sendall(self.refuses)
            client.close()
            return
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self.path)
            if head.startswith(b"CONNECT "):
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(head)
            back = threading.Thread(target=_pass, args=(server, client), daemon=True)
            back.start()
            _pass(client, server)
            back.join()


def _pass(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            to.sendall(piece)
    for end in (source, to):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def middle(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Middle]:
    m = Middle(server.socket)
    monkeypatch.setenv("HTTP_PROXY", m.url)
    monkeypatch.setenv("HTTPS_PROXY", m.url)
    yield m
    m.listener.close()


@pytest.mark.parametrize("kind", [b.Belljar, b.AsyncBelljar])
async def test_everything_goes_through(kind: Any, middle: Middle) -> None:
    client = kind("http://belljar.example:8080/", api_key=KEY)
    try:
        assert (await got(client.me()))["role"] == "admin"
        run = await got(client.run(["cat"], stdin="by proxy"))
        assert run.stdout == "by proxy"
        session = await got(client.sessions.create())
        terminal = await got(session.terminal())
        await got(terminal.write("exit 3\n"))
        await got(terminal.close())
        await got(session.close())
    finally:
        await got(client.close())
    assert middle.heads[0].startswith("GET http://belljar.example:8080/api/v1/sandbox/me HTTP/1.1\r\n")
    tunnels = [head for head in middle.heads if head.startswith("CONNECT belljar.example:8080 HTTP/1.1\r\n")]
    assert tunnels and all("Proxy-Authorization: Basic dXNlcjpwYXNzIHdvcmQ=" in head for head in middle.heads)
    assert not any(KEY in head for head in tunnels)


@pytest.mark.parametrize("kind", [b.Belljar, b.AsyncBelljar])
async def test_refused(kind: Any, middle: Middle) -> None:
    middle.refuses = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
    client = kind("https://belljar.example", api_key=KEY, patience=0)
    with pytest.raises(b.UnreachableError, match="refuses the connection: 407 Proxy Authentication Required"):
        await got(client.me())
    await got(client.close())
