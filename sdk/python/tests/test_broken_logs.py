"""Logs and archives from servers that misbehave, for both clients."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import each, error, got
from test_broken import STREAM, _session, chunk, cut, hurry, once

import belljar as b
from belljar._async import transport as one
from belljar._sync import transport as two

__all__ = ["hurry"]  # a fixture for pytest


def event(seq: int, name: str = "stdout", **more: Any) -> bytes:
    frame = {"type": name, "seq": seq, **({"encoding": "utf8", "data": f"{seq}\n"} if name == "stdout" else more)}
    return f"id: {seq}\nevent: {name}\ndata: {json.dumps(frame)}\n\n".encode()


GOING = {"id": "r1", "run_id": "r1", "phase": "running", "exit_code": None}
END = {"event": "end", "data": {"exit_code": 0, "phase": "completed"}}


async def test_a_log_goes_on_behind_what_came(connect: Any, stage: Any) -> None:
    half = chunk(event(3)[:-20])
    s = stage(
        cut(STREAM, chunk(b"retry: 1000\n\n", event(1)), chunk(event(2)), half),  # in the middle of a frame
        cut(STREAM, b"0\r\n\r\n"),  # the server ends the answer properly
        once(502, b"", kind="text/html"),
        cut(b""),
        once(429, error("rate_limited"), "Retry-After: 0\r\n"),
        cut(STREAM, chunk(event(2), event(3), event(4))),  # frame 2 again
        cut(STREAM, chunk(b"event: event\ndata: {\"type\":\"event\",\"event\":\"resume\",\"data\":{},\"seq\":7}\n\n", event(7), event(8, "event", **END))),
    )
    client = connect(s.url)
    seqs = [f.seq async for f in each(client.runs.logs("r1"))]
    assert seqs == [1, 2, 3, 4, 7, 8]
    asked = [re.search(rb"since_seq=(\d+)", r) for r in s.requests]
    assert [int(m.group(1)) for m in asked if m] == [0, 2, 2, 2, 2, 2, 4]


async def test_a_log_that_never_comes_back(connect: Any, stage: Any) -> None:
    s = stage(cut(STREAM, chunk(event(1))), forever=cut(b""))
    client = connect(s.url, patience=0.05)
    seen: list[int] = []
    with pytest.raises(b.UnreachableError):
        async for f in each(client.runs.logs("r1")):
            seen.append(f.seq)
    assert seen == [1]
    s = stage(once(404, error("not_found", "run is gone")))
    with pytest.raises(b.NotFoundError, match="gone"):
        async for _ in each(connect(s.url).runs.logs("r1")):
            pass


async def test_a_log_of_nonsense(connect: Any, stage: Any) -> None:
    for junk in (b"event: stdout\ndata: {\n\n", b"event: stdout\ndata: []\n\n", b"event: stdout\ndata: {\"type\":\"stdout\",\"seq\":1}\n\n"):
        s = stage(cut(STREAM, chunk(junk)))
        with pytest.raises(b.InternalError, match="cannot be read"):
            async for _ in each(connect(s.url).runs.logs("r1")):
                pass


async def test_a_log_of_a_stranger(connect: Any, stage: Any) -> None:
    for how in ({"kind": "text/html"}, {"kind": "text/event-stream", "headers": "Content-Encoding: gzip\r\n"}):
        s = stage(once(200, b"<html>", **how))
        with pytest.raises(b.InternalError, match="not belljar"):
            async for _ in each(connect(s.url).runs.logs("r1")):
                pass


async def test_a_log_that_has_no_more(connect: Any, stage: Any) -> None:
    s = stage(once(204, None))
    assert [f async for f in each(connect(s.url).runs.logs("r1", since_seq=9))] == []
    s = stage(cut(STREAM, chunk(event(2, "event", event="resume"), event(2, "event", **END))))
    assert [f.seq async for f in each(connect(s.url).runs.logs("r1", since_seq=9))] == [2]


async def test_the_tail_of_a_log(connect: Any, stage: Any) -> None:
    s = stage(once(200, {"id": "r1", "phase": "running", "last_seq": 5}), cut(b""), cut(STREAM, chunk(event(6), event(7, "event", **END))))
    assert [f.seq async for f in each(connect(s.url).runs.logs("r1", tail=True))] == [6, 7]
    s = stage(once(200, {"id": "r1", "phase": "failed", "last_seq": 5}), cut(STREAM, chunk(event(5, "event", **END))))
    assert [f.seq async for f in each(connect(s.url).runs.logs("r1", tail=True))] == [5]
    with pytest.raises(b.InvalidRequestError, match="negative"):
        connect(s.url).runs.logs("r1", since_seq=-1)


async def test_waiting_behind_the_first_answer(connect: Any, stage: Any) -> None:
    s = stage(
        once(202, GOING), cut(STREAM, chunk(event(1))), cut(STREAM, chunk(event(2), event(3, "event", **END))),
        once(200, {"id": "r1", "phase": "failed", "exit_code": 3}),
    )  # fmt: skip
    run = await got(connect(s.url).run(["x"]))
    assert (run.stdout, run.exit_code, run.phase, run.printed) == ("1\n2\n", 3, "failed", True)


async def test_a_wait_that_is_over_cancels(connect: Any, stage: Any) -> None:
    s = stage(once(202, GOING), once(200, {"run_id": "r1", "status": "canceling"}))
    with pytest.raises(TimeoutError, match="is cancelled") as e:
        await got(connect(s.url).run(["x"], wait=0.0))
    assert e.value.details == {"run_id": "r1"} and b"POST /api/v1/sandbox/runs/r1/cancel" in s.requests[-1]
    s = stage(once(202, GOING), lambda a: (a.request(), a.say(STREAM, chunk(event(1))), a.gone()))
    with pytest.raises(TimeoutError, match="the run continues") as e:
        await got(connect(s.url).run(["x"], wait=0.3, cancel=False))
    assert e.value.details == {"run_id": "r1"}
    assert not any(b"/cancel" in r for r in s.requests)


@pytest.mark.parametrize("fails", ["start", "answer", "log"])
async def test_a_wait_is_over_in_time(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    for module in (one, two):
        monkeypatch.setattr(module, "LATE", 0.05)

    def act(a: Any) -> None:
        raw = a.request()
        if b"/cancel" in raw:
            a.answer(200, {"run_id": "r1", "status": "canceling"}, "Connection: close\r\n")
        elif b"wait=false" in raw or fails == "log" and b"/logs" not in raw:
            a.answer(202, GOING, "Connection: close\r\n")
        elif fails == "start":
            a.answer(502, b"", "Connection: close\r\n", kind="text/html")
        else:
            a.gone()

    s = stage(forever=act)
    with pytest.raises(TimeoutError, match="is cancelled") as e:
        await got(connect(s.url).run(["x"], wait=0.02))
    assert e.value.details == {"run_id": "r1"} and b"/cancel" in s.requests[-1]


@pytest.mark.parametrize("failure", [b.NotFoundError("no such run"), b.TimeoutError("another wait is over"), ValueError("no")])
async def test_a_callback_that_raises_cancels(connect: Any, stage: Any, failure: Exception) -> None:
    def fail(frame: b.Frame) -> None:
        raise failure

    s = stage(once(202, GOING), cut(STREAM, chunk(event(1))), once(200, {"run_id": "r1", "status": "canceling"}))
    client = connect(s.url)
    with pytest.raises(type(failure)) as e:
        await got(client.run(["x"], on_output=fail))
    await got(client.close())  # waits for the cleanup
    assert e.value is failure and b"/runs/r1/cancel" in s.requests[-1]


async def test_usage_that_breaks_off(connect: Any, stage: Any) -> None:
    sample = b'event: later\ndata: not for us\n\nevent: usage\ndata: {"at": "now", "scope": "run"}\n\n'
    for end in (b"", b"0\r\n\r\n"):
        s = stage(cut(STREAM, chunk(sample), end))
        seen: list[Any] = []
        with pytest.raises(b.UnreachableError):
            async for one in each(connect(s.url).runs.usage("r1")):
                seen.append(one["scope"])
        assert seen == ["run"]


async def test_results_that_the_answer_leaves_out(connect: Any, stage: Any) -> None:
    """A complete answer contains only the first results."""
    first, last = {"type": "display", "data": {"text/plain": "1"}}, {"type": "value", "data": {"text/plain": "2"}}
    ended = {"id": "r1", "phase": "completed", "exit_code": 0}
    answer = {**ended, "stdout": "", "stderr": "", "results": [first], "results_truncated": True}
    s = stage(once(200, answer), once(200, {"items": [first, last], "truncated": False}), once(200, ended))
    run = await got(connect(s.url).sessions.use("s1").code("1; 2"))
    assert b"GET /api/v1/sandbox/runs/r1/results " in s.requests[-1]
    assert (len(run.results), run.value) == (2, "2")
    assert (await got(run.refresh())).value == "2"


async def test_a_wait_without_time_for_a_run_that_has_ended(connect: Any, stage: Any) -> None:
    def act(a: Any) -> None:
        while True:
            log = b"/logs" in a.request()
            if log:
                a.say(STREAM, chunk(event(1), event(2, "event", **END)), b"0\r\n\r\n")
            else:
                a.answer(200, {"id": "r1", "phase": "completed", "exit_code": 0})

    client = connect(stage(forever=act).url)
    run = await got(client.runs.get("r1"))
    assert (await got(run.wait(timeout=0))).stdout == "1\n"
    assert (await got(client.runs.wait("r1", timeout=0))).stdout == "1\n"
    s = stage(forever=lambda a: (a.request(), a.answer(200, GOING, "Connection: close\r\n")))
    with pytest.raises(TimeoutError, match="the run continues"):
        await got(connect(s.url).runs.wait("r1", timeout=0))


async def test_results_of_other_shapes(connect: Any, stage: Any) -> None:
    deep = '{"type":"value","data":{"text/plain":"1","application/json":' + "[" * 90_000 + "]" * 90_000 + "}}\n"
    lines = deep + '{"type":"value","data":[1]}\n{"type":"value","data":{"text/plain":"2"}}\n{"type":"value"}\n{"type":"value","data":[]}\n'
    frames = [event(1, "result", encoding="utf8", data=lines), event(2, "event", **END)]
    s = stage(once(202, GOING), cut(STREAM, chunk(*frames)), once(200, {"id": "r1", "phase": "completed", "exit_code": 0}))
    run = await got(connect(s.url).run(["x"]))
    assert run.ok and [r.get("data") for r in run.results] == [{"text/plain": "2"}, None, []] and run.value == ""
    s = stage(once(200, b'{"id": "r1", "x": ' + b"[" * 90_000 + b"]" * 90_000 + b"}"))
    with pytest.raises(b.InternalError, match="too deep"):
        await got(connect(s.url).runs.get("r1"))


async def test_an_archive_that_breaks_off(connect: Any, stage: Any, tmp_path: Path) -> None:
    s = stage(cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"))
    files = _session(connect(s.url, patience=0)).files
    for call in (lambda: files.archive(), lambda: files.save_archive(tmp_path / "x.tar")):
        with pytest.raises(b.UnreachableError) as e:
            await got(call())
        assert "broke off" in e.value.message and e.value.hint.startswith("a file in it may be unreadable or changing")
    assert not list(tmp_path.iterdir())
