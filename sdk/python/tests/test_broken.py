"""Both clients against servers that misbehave: no hang, no repeated side effect, a useful error."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import Stage, each, error, got

import belljar as b
from belljar import _retry
from belljar._address import Address
from belljar._async import transport as one
from belljar._sync import transport as two

RUN = {"id": "r1", "run_id": "r1", "phase": "completed", "exit_code": 0, "stdout": "hi\n", "stdout_encoding": "utf8", "stderr": ""}
ME = {"user_id": "ann"}


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens all pauses to a hundredth."""
    usual = _retry.Passing.pause
    monkeypatch.setattr(_retry.Passing, "pause", lambda self, tries: usual(self, tries) / 100)


def ok(body: Any, **how: Any) -> Any:
    def act(a: Any) -> None:
        while True:
            a.request()
            a.answer(200, body, **how)

    return act


def once(status: int, body: Any = None, headers: str = "", **how: Any) -> Any:
    def act(a: Any) -> None:
        a.request()
        a.answer(status, body, headers + "Connection: close\r\n", **how)

    return act


def cut(*parts: Any) -> Any:
    def act(a: Any) -> None:
        a.request()
        a.say(*parts)

    return act


def keys(stage: Stage) -> set[bytes]:
    return {m.group(1) for r in stage.requests for m in [re.search(rb"(?i)\r\nidempotency-key: (.*)\r\n", r)] if m}


async def test_a_connection_is_used_again(connect: Any, stage: Any) -> None:
    s = stage(ok(ME))
    client = connect(s.url)
    for _ in range(5):
        assert await got(client.me()) == ME
    assert s.connections == 1 and len(s.requests) == 5
    head = s.requests[0].decode()
    assert head.startswith("GET /api/v1/sandbox/me HTTP/1.1\r\n") and "X-API-KEY: k\r\n" in head and "X-Belljar-Source: python\r\n" in head


async def test_a_line_break_after_a_key_is_no_part_of_it(connect: Any, stage: Any) -> None:
    s = stage(ok(ME))
    assert await got(connect(s.url, api_key="k\n").me()) == ME
    assert "X-API-KEY: k\r\n" in s.requests[0].decode()


@pytest.mark.parametrize("breaks", [b"", b"HTTP/1.1 20", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{\"user"])
async def test_a_start_is_repeated_under_one_key(connect: Any, stage: Any, breaks: bytes) -> None:
    s = stage(cut(breaks), cut(breaks), ok(RUN))
    client = connect(s.url)
    run = await got(client.run(["true"]))
    assert (run.id, run.stdout, len(s.requests), len(keys(s))) == ("r1", "hi\n", 3, 1)
    assert len({r.split(b"\r\n\r\n")[1] for r in s.requests}) == 1


async def test_what_cannot_be_repeated_is_not(connect: Any, stage: Any) -> None:
    s = stage(cut(b""), ok({"ok": True}))
    client = connect(s.url)
    session = _session(client)
    with pytest.raises(b.UnreachableError) as e:
        await got(session.files.rename("a", "b"))
    assert len(s.requests) == 1 and isinstance(e.value, ConnectionError) and e.value.code == "runtime_unavailable" and e.value.hint
    for failure in ({"error": "upstream reset"}, error("runtime_unavailable")):  # from a proxy that may have forwarded the request
        s = stage(once(503, failure, "Retry-After: 0\r\n"), ok({"ok": True}))
        with pytest.raises(b.RuntimeUnavailableError):
            await got(_session(connect(s.url)).files.rename("a", "b"))
    s = stage(once(429, error("rate_limited"), "Retry-After: 0\r\n"), ok({"ok": True}))
    await got(_session(connect(s.url)).files.rename("a", "b"))


def _session(client: Any) -> Any:
    """Makes a session without a request to a server."""
    kind = b.Session if isinstance(client, b.Belljar) else b.AsyncSession
    return kind(client.sessions, {"session_id": "s1", "state": "active"})


async def test_what_would_remove_another_is_not_repeated(connect: Any, stage: Any) -> None:
    for remove in (
        lambda c: c.images.remove("x"), lambda c: c.images.prune(all=True), lambda c: c.secrets.remove("x"), lambda c: c.snapshots.remove("x"),
        lambda c: c.templates.remove("x"), lambda c: c.volumes.remove("x"), lambda c: c.terminals.end("x"), lambda c: _session(c).revoke_preview("x"),
    ):  # fmt: skip
        s = stage(cut(b""), ok({"images": []}))
        with pytest.raises(b.UnreachableError):
            await got(remove(connect(s.url)))
        assert len(s.requests) == 1


async def test_a_closed_idle_connection_does_no_harm(connect: Any, stage: Any) -> None:
    closed = threading.Event()

    def act(a: Any) -> None:
        a.request()
        a.answer(200, ME)
        a.sock.shutdown(socket.SHUT_RDWR)
        closed.set()

    s = stage(act, ok(ME))
    client = connect(s.url)
    await got(client.me())
    assert closed.wait(30)
    session = _session(client)
    await got(session.files.rename("a", "b"))  # a request that must not be sent twice
    assert s.connections == 2 and len(s.requests) == 2


async def test_waiting_as_long_as_the_server_asks(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(_retry.Passing, "pause", lambda self, tries: asked.append(self.after) or 0.0)
    busy = error("rate_limited", details={"retry_after_sec": 3})
    s = stage(once(429, busy, "Retry-After: 3\r\n"), once(429, busy, "Retry-After: 0\r\n"), once(502, b"<html>", kind="text/html"), ok(ME))
    client = connect(s.url)
    assert await got(client.me()) == ME
    assert asked == [3.0, 0.05, None]


async def test_a_storm_of_429_ends(connect: Any, stage: Any) -> None:
    s = stage(forever=once(429, error("rate_limited", "slowly"), "Retry-After: 1000\r\n"))
    client = connect(s.url, patience=5.0)
    with pytest.raises(b.RateLimitedError) as e:
        await got(client.me())
    assert e.value.retry_after == 1000 and e.value.status == 429 and len(s.requests) == 1  # a hundredth of 1,000 s still exceeds the patience
    s = stage(forever=once(429, error("rate_limited"), "Retry-After: 0\r\n"))
    client = connect(s.url, patience=0.3)
    with pytest.raises(b.RateLimitedError):
        await got(client.run(["true"]))
    assert len(s.requests) < 2000 and len(keys(s)) == 1


async def test_a_refused_request_that_is_not_repeatable_is_sent_again(connect: Any, stage: Any) -> None:
    s = stage(once(429, error("rate_limited"), "Retry-After: 0\r\n"), ok({"ok": True}))
    client = connect(s.url)
    await got(_session(client).files.rename("a", "b"))
    assert len(s.requests) == 2


async def test_a_request_that_reached_nobody_is_sent_again(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s = stage(once(200, ME), ok({"ok": True}))
    client = connect(s.url)
    await got(client.me())
    kind = one.AsyncWire if isinstance(client, b.AsyncBelljar) else two.Wire
    usual = kind.dial
    refusals = [ConnectionRefusedError("connection refused"), TimeoutError(errno.ETIMEDOUT, "no answer")]

    def dial(*args: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return usual(*args)

    monkeypatch.setattr(kind, "dial", dial)
    await got(_session(client).files.rename("a", "b"))
    assert len(s.requests) == 2 and not refusals


async def test_503_is_tried_three_times(connect: Any, stage: Any) -> None:
    s = stage(forever=once(503, error("runtime_unavailable", "starting"), "Retry-After: 0\r\n"))
    client = connect(s.url)
    with pytest.raises(b.RuntimeUnavailableError, match="starting"):
        await got(client.me())
    assert len(s.requests) == 3
    s = stage(forever=once(503, error("runtime_unavailable", "never")))
    client = connect(s.url)
    with pytest.raises(b.RuntimeUnavailableError, match="never"):
        await got(client.me())
    assert len(s.requests) == 1


@pytest.mark.parametrize(
    "status, body, kind, want",
    [
        (404, b"<html>nginx", "text/html", b.NotFoundError), (200, b"<html>", "text/html", b.InternalError), (200, b"{", "application/json", b.InternalError),
        (302, b"", "text/plain", b.InternalError), (401, b"", "text/plain", b.UnauthorizedError), (418, b"{}", "application/json", b.InternalError),
        (500, {"error": {"code": "internal", "message": "m", "details": {"request_id": "x"}, "hint": "h"}}, "application/json", b.InternalError),
        (400, error("of_the_future"), "application/json", b.BelljarError), (200, [], "application/json", b.InternalError), (409, error("conflict", details=[1]), "application/json", b.ConflictError),
        (409, b"<html>", "text/html", b.ConflictError), (422, error("image_invalid"), "application/json", b.ImageInvalidError), (504, error("timeout"), "application/json", TimeoutError),
    ],
)  # fmt: skip
async def test_failures_are_typed(connect: Any, stage: Any, status: int, body: Any, kind: str, want: type[BaseException]) -> None:
    s = stage(once(status, body, "Location: http://elsewhere/\r\nX-Request-Id: q7\r\n", kind=kind))
    client = connect(s.url)
    with pytest.raises(want) as e:
        await got(client.runs.get("r1"))
    assert isinstance(e.value, b.BelljarError) and e.value.message
    assert not isinstance(e.value, b.IdempotencyConflictError)
    if body != []:
        assert e.value.status == status and e.value.request_id == "q7"
    if isinstance(body, dict) and "error" in body:
        assert e.value.code == body["error"]["code"] and e.value.hint == body["error"].get("hint", "")
    else:
        assert e.value.hint


async def test_what_is_not_http(connect: Any, stage: Any) -> None:
    s = stage(forever=cut(b"SSH-2.0-OpenSSH\r\n\r\n"))
    with pytest.raises(b.InternalError, match="not HTTP"):
        await got(connect(s.url).me())
    assert s.connections == 1


async def test_nobody_there(connect: Any) -> None:
    with socket.socket() as taken:  # bound but not listening, so that no other program can listen on it
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(b.UnreachableError, match="cannot be reached"):
            await got(connect(f"http://127.0.0.1:{taken.getsockname()[1]}", patience=600).me())  # fails without a retry
    with pytest.raises(b.UnreachableError):
        await got(connect("unix:/nowhere/at/all.sock", patience=600).me())
    with pytest.raises(b.UnreachableError):
        await got(connect("http://no-such-host.invalid", patience=600).me())


async def test_a_silent_server_is_given_up(connect: Any, stage: Any) -> None:
    s = stage(forever=lambda a: (a.request(), a.gone()))
    client = connect(s.url, silence=0.2, patience=0.0)
    with pytest.raises(b.UnreachableError, match="does not answer"):
        await got(client.me())


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "ftp://x", "http://", "http://u:secret@h", "http://:secret@h", "http://h/?q", "http://h\r\nX: y/", "http://h:99999", "unix:", "http://h..x", "http://" + "h" * 64, "http://h/\udcff"])
async def test_addresses_that_are_none(connect: Any, url: str) -> None:
    with pytest.raises(b.InvalidRequestError) as e:
        connect(url)
    assert e.value.hint and isinstance(e.value, ValueError) and "secret" not in str(e.value)


def test_forms_of_addresses() -> None:
    found = Address("http://Bücher:8080/ü")
    assert (found.host, found.authority, found.base) == ("xn--bcher-kva", "xn--bcher-kva:8080", "/%C3%BC")
    assert Address("https://[::1]:8443/x").authority == "[::1]:8443"
    assert [Address("http://h" + path).base for path in ("/api/v1/sandbox", "/p/api/v1/sandbox/", "/p/")] == ["", "/p", "/p"]


async def test_keys_that_cannot_be_sent(connect: Any, stage: Any) -> None:
    s = stage(forever=ok(RUN))
    for key in ("a\r\nX: y", "a\nb", "ü", "\x00"):
        with pytest.raises(b.InvalidRequestError):
            connect(s.url, api_key=key)
        with pytest.raises(b.InvalidRequestError):
            await got(connect(s.url).run(["true"], idempotency_key=key))
    with pytest.raises(b.InvalidRequestError):
        await got(connect(s.url).run(["true"], idempotency_key="x" * 129))
    with pytest.raises(b.InvalidRequestError):
        connect(s.url, bearer="b")
    assert not s.requests


async def test_requests_that_cannot_be_made(connect: Any, stage: Any) -> None:
    s = stage(forever=ok(RUN))
    client = connect(s.url)
    for etag in ('"a"\r\nX-Other: y', "“a”"):
        with pytest.raises(b.InvalidRequestError, match="If-Match"):
            await got(_session(client).files.write("f", b"", if_match=etag))
    for how in ({}, {"command": ["a"], "code": "b"}, {"command": ["a"], "stdin": b"\xff"}, {"command": ["\ud800"]}, {"command": ["a"], "timeout": float("nan")}):
        with pytest.raises(b.InvalidRequestError):
            await got(client.run(**how))
    with pytest.raises(b.InvalidRequestError):
        await got(_session(client).files.read("f", offset=-1))
    for contents, match in ((7, "not int"), (Path("f"), "not PosixPath"), ([104], "not list"), (io.StringIO("text"), "open for text")):
        files = _session(client).files
        for write in (lambda c: files.write("f", c), lambda c: files.write_all({"f": c}), lambda c: client.run(["a"], files={"f": c})):
            with pytest.raises(TypeError, match=match):
                await got(write(contents))
    assert not [r for r in s.requests if r.startswith(b"POST")]


async def test_a_close_right_after_a_cancelled_run_waits_for_its_cancellation(stage: Any) -> None:
    asked = threading.Event()

    def never(a: Any) -> None:
        a.request()
        asked.set()
        a.gone()

    s = stage(never, ok({**RUN, "phase": "running"}))
    client = b.AsyncBelljar(s.url)
    task = asyncio.create_task(client.run(["a"]))
    await asyncio.to_thread(asked.wait)
    task.cancel()
    await client.close()
    assert any(b"/runs/r1/cancel" in r for r in s.requests)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_close_that_is_cancelled_closes_all_the_same(stage: Any) -> None:
    client = b.AsyncBelljar(stage(ok(ME)).url)
    await client.me()
    never = asyncio.Event()
    client._transport.leaving.start(never.wait)
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not client._transport._idle
    with pytest.raises(b.CanceledError):
        await client.me()
    never.set()


async def test_an_image_in_a_session_is_for_the_server_to_refuse(connect: Any, stage: Any) -> None:
    s = stage(forever=ok(RUN))
    await got(connect(s.url).run(["true"], session="s1", image="other"))
    sent = json.loads(s.requests[0].partition(b"\r\n\r\n")[2])
    assert (sent["session_id"], sent["base_image"]) == ("s1", "other")


async def test_a_closed_client(connect: Any, stage: Any) -> None:
    client = connect(stage(ok(ME)).url)
    await got(client.close())
    await got(client.close())
    with pytest.raises(b.CanceledError):
        await got(client.me())


# Bodies.


async def test_uploads_are_read_once_and_said_how_long(connect: Any, stage: Any) -> None:
    entry = {"ok": True, "entry": {"path": "f"}}
    bodies: list[bytes] = []

    def act(a: Any) -> None:
        head = a.head()
        assert b"Expect: 100-continue" in head
        a.say("HTTP/1.1 100 Continue\r\n\r\n")
        if b"chunked" in head:
            body = b""
            while not a.buf.endswith(b"0\r\n\r\n"):
                a.more()
            rest = a.buf
            while rest:
                size, _, rest = rest.partition(b"\r\n")
                body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        else:
            size = int(re.search(rb"Content-Length: (\d+)", head).group(1))  # type: ignore[union-attr]
            while len(a.buf) < size:
                a.more()
            body = a.buf
        bodies.append(body)
        a.answer(200, entry, "Connection: close\r\n")

    big = bytes(range(256)) * 4000

    class Pipe:
        """A file-like object of unknown length."""

        def __init__(self) -> None:
            self.left = io.BytesIO(big)

        def read(self, n: int) -> bytes:
            return self.left.read(min(n, 1000))

    for content in (io.BytesIO(big), Pipe()):
        s = stage(act)
        assert await got(_session(connect(s.url)).files.write("f", content)) == {"path": "f"}
    assert bodies == [big, big]


async def test_an_upload_that_is_refused_is_not_sent(connect: Any, stage: Any) -> None:
    sent: list[int] = []

    def act(a: Any) -> None:
        a.head()
        a.answer(413, error("payload_too_large", "too much", details={"maximum": 1}), "Connection: close\r\n")
        sent.append(a.gone())

    s = stage(act)
    with pytest.raises(b.PayloadTooLargeError, match="too much"):
        await got(_session(connect(s.url)).files.write("f", io.BytesIO(b"x" * (1 << 20))))
    s.close()  # its act has ended
    assert sent == [0]


async def test_a_connection_with_half_a_request_is_not_used_again(connect: Any, stage: Any) -> None:
    def act(a: Any) -> None:
        a.head()
        a.answer(409, error("conflict"))  # and the server still waits for the body
        a.head()
        a.answer(400, error("invalid_request", "this is the body"))

    s = stage(act, ok(ME))
    client = connect(s.url)
    with pytest.raises(b.ConflictError):
        await got(_session(client).files.write("f", io.BytesIO(b"x" * (1 << 20))))
    assert await got(client.me()) == ME and s.connections == 2


async def test_a_file_that_shrinks_or_fails_is_told(connect: Any, stage: Any) -> None:
    class Shrinks(io.BytesIO):
        def read(self, n: Any = -1) -> bytes:
            return b""

    s = stage(lambda a: (a.head(), a.gone()))
    with pytest.raises(b.InvalidRequestError, match="announced"):
        await got(_session(connect(s.url)).files.write("f", Shrinks(b"x" * 1000)))

    class Fails(io.BytesIO):
        def read(self, n: Any = -1) -> bytes:
            raise ConnectionError("the disk is gone")

    s = stage(lambda a: (a.head(), a.gone()))
    with pytest.raises(ConnectionError, match="^the disk is gone"):
        await got(_session(connect(s.url)).files.write("f", Fails(b"x" * 1000)))


async def test_a_download_that_breaks_is_fetched_again(connect: Any, stage: Any, tmp_path: Any) -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Type: application/octet-stream\r\n\r\n01234"
    s = stage(cut(half), cut(half), ok(b"0123456789", kind="application/octet-stream"))
    await got(_session(connect(s.url)).files.download("f", tmp_path / "f"))
    assert (tmp_path / "f").read_bytes() == b"0123456789" and [p.name for p in tmp_path.iterdir()] == ["f"]
    s = stage(forever=cut(half))
    with pytest.raises(b.UnreachableError):
        await got(_session(connect(s.url, patience=0.0)).files.download("f", tmp_path / "g"))
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


async def test_ranges_where_they_are_not_known(connect: Any, stage: Any) -> None:
    s = stage(ok(b"0123456789", kind="application/octet-stream"))
    assert await got(_session(connect(s.url)).files.read("f", offset=3, limit=4)) == b"3456"


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(*parts: bytes) -> bytes:
    data = b"".join(parts)
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_pulling_an_image(connect: Any, stage: Any) -> None:
    told: list[Any] = []
    progress = b'event: progress\ndata: {"phase": "pulling", "done": 1, "total": 2}\n\n'
    s = stage(cut(STREAM, chunk(progress)), cut(STREAM, chunk(progress, b": still here\n\n", b'event: done\ndata: {"ref": "x:1"}\n\n')))
    image = await got(connect(s.url).images.pull("x:1", progress=told.append))
    assert image["ref"] == "x:1" and len(told) == 2
    failed = json.dumps(error("image_unavailable", "nobody has it", hint="check the name")).encode()
    s = stage(cut(STREAM, chunk(b"event: error\ndata: " + failed + b"\n\n")))
    with pytest.raises(b.ImageUnavailableError, match="check the name"):
        await got(connect(s.url).images.pull("x:1"))


async def test_what_waits_for_a_build_is_given_the_time(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    longer: list[float] = []
    for module in (one, two):
        usual = module.Ask.__init__

        def note(self: Any, *args: Any, usual: Any = usual, **how: Any) -> None:
            longer.append(how["longer"])
            usual(self, *args, **how)

        monkeypatch.setattr(module.Ask, "__init__", note)
    with pytest.raises(b.ConflictError):
        await got(connect(stage(once(409, error("conflict"))).url).sessions.create(template="large"))
    assert longer[0] >= 7200


async def test_a_session_that_was_approved_and_hibernates_is_opened(connect: Any, stage: Any) -> None:
    s = stage(ok({"session_id": "s1", "state": "hibernated", "created": False, "approval": {"state": "approved"}}))
    session = await got(connect(s.url).sessions.open("workflow", "1"))
    assert (session.state, session.created) == ("hibernated", False)


async def test_presets_of_a_stranger(connect: Any, stage: Any) -> None:
    for body in ([], {}):
        with pytest.raises(b.InternalError, match="has no items"):
            await got(connect(stage(once(200, body)).url).network_presets())
