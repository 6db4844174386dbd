"""The caller's own things, for both clients: files to write to, mappings to send, signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections import ChainMap
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from conftest import error, got
from test_broken import RUN, _session, keys, ok, once

import belljar as b
from belljar import _retry
from belljar._async import transport as one
from belljar._sync import transport as two


BYTES = "application/octet-stream"


async def test_a_download_keeps_what_is_there(connect: Any, stage: Any, tmp_path: Path) -> None:
    files = _session(connect(stage(forever=ok(b"new", kind=BYTES)).url)).files
    pipe, secret, link, dangling = (tmp_path / name for name in ("pipe", "secret", "link", "dangling"))
    os.mkfifo(pipe)
    for other in (pipe, tmp_path):
        with pytest.raises(FileExistsError, match="not a regular file"):
            await got(files.download("f", other))
    assert pipe.is_fifo()
    secret.write_bytes(b"old")
    secret.chmod(0o602)
    link.symlink_to(secret)
    await got(files.download("f", link))
    assert link.is_symlink() and secret.read_bytes() == b"new" and secret.stat().st_mode & 0o777 == 0o602
    dangling.symlink_to(tmp_path / "made")
    await got(files.download("f", dangling))
    assert dangling.is_symlink() and (tmp_path / "made").read_bytes() == b"new" and (tmp_path / "made").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "link", "made", "pipe", "secret"]


@pytest.mark.parametrize("kind", [b.SandboxClient, b.AsyncSandboxClient])
async def test_a_download_makes_the_folders_of_its_default_path(stage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    monkeypatch.chdir(tmp_path)
    client = kind("remote", stage(forever=ok(b"new", kind=BYTES)).url)
    client.session_id = "s1"
    assert await got(client.download_file("a/b/c.txt")) == str(tmp_path / "a" / "b" / "c.txt")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"new"
    with pytest.raises(FileNotFoundError):
        await got(client.download_file("a/b/c.txt", tmp_path / "d" / "c.txt"))
    client.session_id = None
    await got(client.close())


async def test_patience_starts_at_the_first_failure(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, late = time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: usual() + late)
    monkeypatch.setattr(_retry.Passing, "pause", lambda self, tries: 0.001)
    ways = [
        (lambda c: c.run(["true"]), RUN), (lambda c: c.sessions.create(), {"session_id": "s1", "state": "active"}), (lambda c: c.runs.get("r1"), RUN),
    ]  # fmt: skip
    for ask, found in ways:

        def act(a: Any) -> None:
            nonlocal late
            a.request()
            late += 31

        s = stage(act, ok(found))
        await got(ask(connect(s.url)))
        assert len(s.requests) == 2 and len(keys(s)) == (0 if b"GET" in s.requests[0] else 1)
    s = stage(act, act, ok(RUN))
    with pytest.raises(b.UnreachableError):
        await got(connect(s.url).runs.get("r1"))
    assert len(s.requests) == 2  # the time for retries is over
    s = stage(act, ok({}))
    with pytest.raises(b.UnreachableError):
        await got(connect(s.url).runs._abandon({}, "k", "r1"))
    assert len(s.requests) == 1  # the caller is about to exit


async def test_a_first_request_survives_a_restart_of_the_server(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s = stage(lambda a: a.request(), ok(RUN))
    client = connect(s.url)
    kind = one.AsyncWire if isinstance(client, b.AsyncBelljar) else two.Wire
    usual, dials = kind.dial, 0

    def dial(*args: Any) -> Any:
        nonlocal dials
        dials += 1
        if dials in (2, 3):
            raise ConnectionRefusedError("connection refused")
        return usual(*args)

    monkeypatch.setattr(kind, "dial", dial)
    await got(client.run(["true"]))
    assert (len(s.requests), dials, len(keys(s))) == (2, 4, 1)


FULL = once(429, error("rate_limited", "the queue is full"), "Retry-After: 5\r\n")
STOPS = once(503, error("runtime_unavailable", "belljar is shutting down", details={"retry_after_sec": 5}), "Retry-After: 5\r\n")
OUTLIVED = once(503, error("runtime_unavailable", "belljar is shutting down", details={"run_id": "r1"}), "Retry-After: 5\r\n")


@pytest.mark.parametrize("how", ["wait", "cancel"])
@pytest.mark.parametrize("acts, begun", [([], False), ([FULL], False), ([STOPS], False), ([OUTLIVED], True), ([lambda a: a.request()], True)])
async def test_a_call_that_ends_before_a_server_has_accepted_it_starts_nothing(
    connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch, acts: Any, begun: bool, how: str
) -> None:
    s = stage(once(200, RUN), *acts, ok({**RUN, "phase": "running"}))
    client = connect(s.url)
    if how == "cancel" and not isinstance(client, b.AsyncBelljar):
        return
    await got(client.runs.get("r1"))  # after an answer, the client retries where nothing listens
    kind = one.AsyncWire if isinstance(client, b.AsyncBelljar) else two.Wire
    usual, refusals = kind.dial, [] if acts else [ConnectionRefusedError("connection refused")]

    def dial(*args: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return usual(*args)

    waits = asyncio.Event()
    monkeypatch.setattr(kind, "dial", dial)
    monkeypatch.setattr(_retry.Passing, "pause", lambda self, tries: waits.set() or 20.0)
    if how == "wait":
        with pytest.raises(b.TimeoutError):
            await got(client.run(["true"], wait=10))
    else:
        call = asyncio.create_task(client.run(["true"]))
        await waits.wait()
        call.cancel()
        await client.close()
        with pytest.raises(asyncio.CancelledError):
            await call
    paths = [r.split(b" ")[1].partition(b"?")[0] for r in s.requests[1:]]
    start = [b"/api/v1/sandbox/runs"]
    assert paths == start * len(acts) + (start + [b"/api/v1/sandbox/runs/r1/cancel"] if begun else []) and len(keys(s)) <= 1


async def test_any_mapping_is_sent(connect: Any, stage: Any) -> None:
    s = stage(forever=ok(RUN))
    await got(connect(s.url).run(["a"], env=MappingProxyType({"A": "1"}), labels=ChainMap({"x": "1"}, {"y": "2"})))
    body = json.loads(s.requests[-1].split(b"\r\n\r\n", 1)[1])
    assert body["env"] == {"A": "1"} and body["labels"] == {"x": "1", "y": "2"}
    with pytest.raises(b.InvalidRequestError, match="set has no form in JSON"):
        await got(connect(s.url).run(["a"], env={"A": {1}}))


async def test_a_list_states_that_it_is_incomplete(connect: Any, stage: Any) -> None:
    for truncated in (True, False):
        s = stage(once(200, {"entries": [{"path": "a"}], "truncated": truncated}))
        found = await got(_session(connect(s.url)).files.list(limit=1))
        assert found == [{"path": "a"}] and isinstance(found, list) and found.truncated is truncated


@pytest.mark.parametrize("where", ["answer", "body", "dial"])
def test_a_timeout_of_the_callers_own_ends_a_request(stage: Any, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """A signal handler raises it while the client waits."""
    def handler(*_: Any) -> None:
        raise TimeoutError("an alarm of the program")

    def act(a: Any) -> None:
        a.request()
        if where == "body":
            a.say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
        a.gone()

    if where == "dial":
        monkeypatch.setattr(socket, "create_connection", lambda *_: signal.raise_signal(signal.SIGALRM))
    s = stage(forever=act)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with b.Belljar(s.url, api_key="k", patience=0.5) as client, pytest.raises(TimeoutError, match="an alarm of the program") as e:
            client.me()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert type(e.value) is TimeoutError and len(s.requests) == (0 if where == "dial" else 1)
