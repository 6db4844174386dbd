"""Ctrl-C, certificates, and WebSockets that break."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import BINARY, KEY, LONG, ROOT, Server, got, until

import belljar as b
from belljar import _websocket as ws


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_ctrl_c_cancels_what_is_waited_for(server: Server, kind: str) -> None:
    program = {
        "sync": """
            with b.Belljar() as belljar:
                belljar.run("echo > begun; exec sleep 600", session=sys.argv[1])
        """,
        "async": """
            async def main():
                async with b.AsyncBelljar() as belljar:
                    await belljar.run("echo > begun; exec sleep 600", session=sys.argv[1])
            asyncio.run(main())
        """,
    }[kind]
    lines = program.strip("\n").splitlines()
    text = "import asyncio, sys\nimport belljar as b\n" + "\n".join(line[12:] for line in lines)
    with b.Belljar(server.url, api_key=KEY) as belljar, belljar.sessions.create() as session:
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "BELLJAR_SERVER": server.url, "BELLJAR_API_KEY": KEY}
        process = subprocess.Popen([sys.executable, "-c", text, session.id], env=env, stderr=subprocess.PIPE, text=True)
        try:
            until(lambda: session.files.exists("begun"))
            (run,) = belljar.runs.list(session=session.id)["items"]
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=LONG)
        finally:
            process.kill()
        assert "KeyboardInterrupt" in said
        assert belljar.runs.wait(run["id"], LONG).reason_code == "canceled_by_user"


def test_text_that_is_none(server: Server, tmp_path: Path) -> None:
    half = "half an emoji \ud83d"
    with b.Belljar(server.url, api_key=KEY) as belljar, belljar.sessions.create() as session:
        for refused in (
            lambda: belljar.run(["echo", half]),
            lambda: belljar.run(code=half, language="python"),
            lambda: belljar.run(["cat"], files={"f": half}),
            lambda: belljar.run(["cat"], files={half: b""}),
            lambda: belljar.run(["cat"], stdin=half),
            lambda: session.files.write("f", half),
            lambda: session.files.write(half, b""),
            lambda: session.files.write_all({"f": half}),
            lambda: session.shell("echo " + half),
        ):
            with pytest.raises(b.InvalidRequestError):
                refused()
        with session.terminal(command=["cat"]) as terminal, pytest.raises(b.InvalidRequestError):
            terminal.write(half)
        run = belljar.runs.start(["cat"], interactive=True)
        with run.stdin() as stdin:
            with pytest.raises(b.InvalidRequestError):
                stdin.write(half)
            stdin.end()
        assert run.wait(LONG).ok
    local = tmp_path / os.fsdecode(b"no utf-8 \xff")
    local.write_bytes(b"x")
    with b.SandboxClient("remote", server.url, api_key=KEY) as client:
        client.get_or_create_session("u", "text-that-is-none")
        with pytest.raises(b.InvalidRequestError):
            client.upload_file(local)
        assert client.upload_file(local, "f")["size_bytes"] == 1


def test_a_program_that_leaves_in_the_midst_of_a_run() -> None:
    text = "from belljar import Belljar\nbelljar = Belljar.local()\nrun = belljar.runs.start(['sleep', '600'])\nprint(belljar._transport.local.ready()['pid'])"
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, timeout=LONG
    )
    assert done.returncode == 0, done.stderr
    assert not Path(f"/proc/{done.stdout.strip()}").exists() and time.monotonic() - begun < LONG


@pytest.fixture(scope="module")
def secure(tmp_path_factory: Any) -> Iterator[tuple[str, str]]:
    """A TLS server, and its certificate."""
    place = tmp_path_factory.mktemp("tls")
    cert, key = str(place / "cert.pem"), str(place / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    process = subprocess.Popen(
        [BINARY, "serve", "--json", "--listen", "127.0.0.1:0", "--data", str(place / "data"), "--set", f"tls_cert={cert}", "--set", f"tls_key={key}",
         "--set", "end_sessions=true", "--set", "log_level=error", "--set", "default_startup_timeout_sec=300"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "SANDBOX_API_KEY": KEY},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"], cert
    finally:
        process.terminate()
        process.wait(LONG)
        process.stdout.close()
        shutil.rmtree(place, ignore_errors=True)


async def test_tls(connect: Any, secure: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    url, cert = secure
    with pytest.raises(b.UnreachableError) as e:
        await got(connect(url, api_key=KEY).me())
    assert "SSL_CERT_FILE" in e.value.hint
    monkeypatch.setenv("SSL_CERT_FILE", cert)
    client = connect(url, api_key=KEY)
    session = await got(client.sessions.create())
    data = bytes(range(256)) * 8000
    await got(session.files.write("f", data))
    assert await got(session.files.read("f")) == data
    for _ in range(3):
        assert (await got(session.run(["echo", "hi"]))).stdout == "hi\n"
    terminal = await got(session.terminal(command=["cat"]))
    await got(terminal.write("typed\n"))
    assert b"typed" in await got(terminal.read_until("typed", LONG))
    await got(terminal.close())
    await got(session.close())


def test_a_terminal_over_tls_in_two_threads(secure: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    url, cert = secure
    monkeypatch.setenv("SSL_CERT_FILE", cert)
    with b.Belljar(url, api_key=KEY) as belljar, belljar.sessions.create() as session:
        with session.terminal(command=["sh", "-c", "stty raw -echo; echo ready; cat"]) as terminal:
            terminal.read_until("ready", LONG)
            want = b"".join(b"%07d" % i for i in range(10_000))
            thread = threading.Thread(target=lambda: [terminal.write(want[i : i + 700]) for i in range(0, len(want), 700)])
            thread.start()
            found = b""
            while len(found.lstrip(b"\r\n")) < len(want):
                found += terminal.read(LONG)
            thread.join(LONG)
            assert found.lstrip(b"\r\n") == want


GREETING = {"type": "session", "session_id": "p1", "terminal_id": "t1", "terminal": {"terminal_id": "t1"}}


def frame(what: Any, kind: int = ws.TEXT) -> bytes:
    data = what if isinstance(what, bytes) else json.dumps(what).encode()
    return bytes([0x80 | kind]) + (bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")) + data


def shake(a: Any, wrong: bool = False) -> None:
    found = re.search(rb"Sec-WebSocket-Key: (\S+)\r\n", a.request())
    assert found
    proof = "x" if wrong else ws.accepted(found.group(1).decode())
    a.say(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {proof}\r\n\r\n")


def greet(a: Any, *more: bytes) -> None:
    shake(a)
    a.say(frame(GREETING), *more)


async def test_terminals_that_break(connect: Any, stage: Any) -> None:
    exit = frame({"type": "exit", "exit_code": 3}) + frame((1000).to_bytes(2, "big"), ws.CLOSE)
    output = frame({"type": "output", "data": "/w==", "encoding": "base64"})
    s = stage(
        lambda a: greet(a, output, output[:5]),
        lambda a: greet(a, frame(b"{")),
        lambda a: greet(a, frame({"type": "later", "x": 1}), output, frame({"type": "error", "code": "internal", "message": "broken"}),
                        frame((1011).to_bytes(2, "big"), ws.CLOSE)),
        lambda a: greet(a, frame((4009).to_bytes(2, "big") + b"slow", ws.CLOSE)),
        lambda a: greet(a, output, frame((1013).to_bytes(2, "big") + b"no pong", ws.CLOSE)),
        lambda a: greet(a, b"\x83\x00"),
        lambda a: (greet(a, output + exit), a.gone()),
    )  # fmt: skip
    client = connect(s.url)
    terminal = await got(client.terminals.attach("t1"))
    assert await got(terminal.read(LONG)) == b"\xff"
    with pytest.raises(b.UnreachableError):
        await got(terminal.read(LONG))
    await got(terminal.close())
    for error, says in ((b.InternalError, "cannot be read"), (b.InternalError, "broken")):
        terminal = await got(client.terminals.attach("t1"))
        with pytest.raises(error, match=says):
            while True:
                assert await got(terminal.read(LONG)) == b"\xff"
        await got(terminal.close())
    for left in (b"", b"\xff"):
        terminal = await got(client.terminals.attach("t1"))
        if left:
            assert await got(terminal.read(LONG)) == left
        assert await got(terminal.read(LONG)) == b"" and terminal.reason == "overflow"
        await got(terminal.close())
    terminal = await got(client.terminals.attach("t1"))
    with pytest.raises(b.InternalError):
        await got(terminal.read(LONG))
    await got(terminal.close())
    terminal = await got(client.terminals.attach("t1"))
    assert [await got(terminal.read(LONG)), await got(terminal.read(LONG))] == [b"\xff", b""] and terminal.exit_code == 3
    await got(terminal.close())
    await got(terminal.close())


async def test_the_answer_to_a_close_is_no_exit(connect: Any, stage: Any) -> None:
    terminal = await got(connect(stage(lambda a: (greet(a, frame((1000).to_bytes(2, "big"), ws.CLOSE)), a.gone())).url).terminals.attach("t1"))
    terminal._left = True  # a close() in another task, while a read waits
    assert (await got(terminal._next(LONG)), terminal.reason) == (b"", "")
    await got(terminal._socket.close())


async def test_a_text_that_does_not_come(connect: Any, stage: Any) -> None:
    def act(a: Any) -> None:
        greet(a, frame({"type": "output", "data": "first\n"}), frame({"type": "output", "data": "sec"}))
        a.more()  # the input
        a.say(frame({"type": "output", "data": "ond\n"}))
        while not select.select([a.sock], [], [], 0)[0]:  # until the client's close message
            a.say(frame({"type": "output", "data": "y\n"}) * 100)
        a.say(frame((1000).to_bytes(2, "big"), ws.CLOSE))

    terminal = await got(connect(stage(act).url).terminals.attach("t1"))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await got(terminal.read_until("second", 0.05))
    await got(terminal.write("x"))
    assert (await got(terminal.read_until("second", LONG))).startswith(b"first\nsecond\n")
    with pytest.raises(TimeoutError, match="in time"):
        await got(terminal.read_until("never", 0.05))
    await got(terminal.close())


async def test_terminals_that_do_not_begin(connect: Any, stage: Any) -> None:
    def said(*parts: bytes) -> Any:
        return lambda a: (shake(a), a.say(*parts))

    s = stage(
        lambda a: shake(a, wrong=True),
        lambda a: (a.request(), a.answer(404, {"error": {"code": "not_found", "message": "no such thing"}})),
        said(frame({"type": "session_not_found"}), frame((4004).to_bytes(2, "big"), ws.CLOSE)),
        said(frame({"type": "error", "code": "policy_denied", "message": "not you", "hint": "ask"}), frame((1008).to_bytes(2, "big"), ws.CLOSE)),
        lambda a: a.request(),
        said(),
        lambda a: (a.request(), a.answer(429, {"error": {"code": "rate_limited", "message": "slow"}}, "Retry-After: 0\r\n")),
        lambda a: (greet(a), a.gone()),
    )
    client = connect(s.url)
    for error in (b.InternalError, b.NotFoundError, b.NotFoundError, b.PolicyDeniedError):
        with pytest.raises(error):
            await got(client.terminals.attach("t1"))
    terminal = await got(client.terminals.attach("t1"))  # after three retries
    assert terminal.id == "t1"
    await got(terminal.close())
    assert not s.acts


@pytest.mark.parametrize("breaks", [lambda a: a.request(), shake])
async def test_a_terminal_is_not_made_twice(connect: Any, stage: Any, breaks: Any) -> None:
    s = stage(breaks)
    with pytest.raises(b.UnreachableError):
        await got(connect(s.url).sessions.use("s1").terminal())
    assert s.connections == 1


async def test_an_input_whose_connection_breaks_is_opened_again(connect: Any, stage: Any) -> None:
    s = stage(
        lambda a: (a.request(), a.answer(200, {"id": "r1", "phase": "running", "interactive": True}, "Connection: close\r\n")),
        lambda a: a.request(), lambda a: (shake(a), a.gone()),
    )  # fmt: skip
    stdin = await got(connect(s.url).runs.stdin("r1"))
    await got(stdin.close())
    assert s.connections == 3


async def test_a_silent_websocket_is_given_up(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from belljar._async import socket as one
    from belljar._sync import socket as two

    for module in (one, two):
        monkeypatch.setattr(module, "PING", 0.2)
    seen: queue.Queue[bytes] = queue.Queue()

    def act(a: Any) -> None:
        greet(a)
        while len(a.buf) < 6:
            a.more()
        seen.put(a.buf)
        a.say(frame(b"", ws.PONG), frame(b"are you there", ws.PING))
        a.gone()

    client = connect(stage(act).url)
    terminal = await got(client.terminals.attach("t1"))
    with pytest.raises(b.UnreachableError):
        await got(terminal.read())
    assert seen.get(timeout=60)[0] == 0x80 | ws.PING  # the server may read it late
    await got(terminal.close())


async def test_input_that_is_not_taken(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """close() returns in time, and at once on cancellation, even if the program reads nothing."""
    from belljar._async import stdin as one
    from belljar._sync import stdin as two

    for module in (one, two):
        monkeypatch.setattr(module, "PARTING", 0.1)

    def act(a: Any) -> None:
        a.request()
        a.answer(200, {"id": "r1", "phase": "running", "interactive": True})
        done.wait(LONG)

    def deaf(a: Any) -> None:
        shake(a)
        done.wait(LONG)

    for leave in (None, asyncio.CancelledError):
        done = threading.Event()
        client = connect(stage(act, deaf).url)
        stdin = await got(client.runs.stdin("r1"))
        wire = stdin._socket._wire
        with suppress(b.UnreachableError):
            while not wire.busy:
                await got(stdin._say({"type": "stdin", "encoding": "utf8", "data": "x" * (1 << 17)}, 0.1))
        begun = time.monotonic()
        if leave is None:
            await got(stdin.close())
        else:
            await got((stdin.__aexit__ if hasattr(stdin, "__aexit__") else stdin.__exit__)(leave, leave(), None))
        assert time.monotonic() - begun < LONG
        assert not wire.usable
        done.set()


async def test_input_that_is_taken_late(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that starts reading after the client's silence timeout gets all of its input."""
    size = 16 << 20
    full, taken = threading.Event(), threading.Event()

    def act(a: Any) -> None:
        a.request()
        a.answer(200, {"id": "r1", "phase": "running", "interactive": True})

    def slow(a: Any) -> None:
        shake(a)
        assert full.wait(LONG)
        left = size * 4 // 3
        while left > 0:
            a.more()
            left, a.buf = left - len(a.buf), b""
        taken.set()
        a.gone()

    client = connect(stage(act, slow).url)
    stdin = await got(client.runs.stdin("r1"))
    monkeypatch.setattr(client._transport, "silence", 0.0)
    writing = asyncio.create_task(stdin.write(bytes(size)) if isinstance(client, b.AsyncBelljar) else asyncio.to_thread(stdin.write, bytes(size)))
    wire = stdin._socket._wire
    while not (wire.busy and (not hasattr(wire, "_sock") or not select.select([], [wire._sock], [], 0)[1])) and not writing.done():
        await asyncio.sleep(0)
    full.set()
    await writing
    assert await asyncio.to_thread(taken.wait, LONG)
    stdin._socket.cut()


async def test_input_that_is_held_in_silence(connect: Any, stage: Any) -> None:
    """An idle stdin connection answers pings, and distinguishes the end of a run from a broken connection."""

    def act(a: Any) -> None:
        a.request()
        a.answer(200, {"id": "r1", "phase": "running", "interactive": True})

    for code, lost in ((1000, False), (1001, True), (1013, True)):
        answered = threading.Event()

        def asks(a: Any, code: int = code, answered: threading.Event = answered) -> None:
            shake(a)
            a.say(frame({"type": "stdout", "encoding": "utf8", "data": "x", "seq": 1}), frame(b"there?", ws.PING))
            while len(a.buf) < 12:
                a.more()
            assert a.buf[0] == 0x80 | ws.PONG
            answered.set()
            a.say(frame(code.to_bytes(2, "big"), ws.CLOSE))
            a.gone()

        stdin = await got(connect(stage(act, asks).url).runs.stdin("r1"))
        assert await asyncio.to_thread(answered.wait, LONG)
        if lost:
            with pytest.raises(b.UnreachableError):
                await got(stdin.end())
        else:
            await got(stdin.end())
        assert stdin.reason == ("connection_lost" if lost else "run_ended")
        await got(stdin.close())


async def test_a_download_that_is_given_up_when_it_is_there(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from belljar._async import incoming as one
    from belljar._sync import incoming as two

    async def later(do: Any, *args: Any) -> Any:
        return now(do, *args)

    def now(do: Any, *args: Any) -> Any:
        made = do(*args)
        if do is os.replace:
            raise asyncio.CancelledError
        return made

    monkeypatch.setattr(one, "aside", later)
    monkeypatch.setattr(two, "aside", now)
    s = stage(lambda a: (a.request(), a.answer(200, b"all", kind="application/octet-stream")))
    with pytest.raises(asyncio.CancelledError):
        await got(connect(s.url).sessions.use("s1").files.download("f", tmp_path / "f"))
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


async def test_a_download_that_is_given_up_as_it_begins(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from belljar._async import incoming as one
    from belljar._sync import incoming as two

    async def later(do: Any, *args: Any) -> Any:
        now(do, *args)

    def now(do: Any, *args: Any) -> Any:
        made.append(do(*args))
        raise asyncio.CancelledError

    made: list[Any] = []
    monkeypatch.setattr(one, "aside", later)
    monkeypatch.setattr(two, "aside", now)
    s = stage(lambda a: (a.request(), a.answer(200, b"all", kind="application/octet-stream")))
    with pytest.raises(asyncio.CancelledError):
        await got(connect(s.url).sessions.use("s1").files.download("f", tmp_path / "f"))
    assert len(made) == 1 and list(tmp_path.iterdir()) == []


async def test_a_line_on_a_terminal(session: Any) -> None:
    terminal = await got(session.terminal(command="echo a''b; exit 3"))  # run with sh -c, as for run
    await got(terminal.read_until("ab", LONG))
    while await got(terminal.read(LONG)):
        pass
    assert terminal.exit_code == 3
    await got(terminal.close())


async def test_a_cancelled_task_leaves_a_terminal_at_once(connect: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from belljar._async import socket as one
    from belljar._sync import socket as two

    for module in (one, two):
        monkeypatch.setattr(module, "PARTING", 2 * LONG)
    terminal = await got(connect(stage(lambda a: (greet(a), a.gone())).url).terminals.attach("t1"))
    wire = terminal._socket._wire
    begun = time.monotonic()
    leave = terminal.__aexit__ if hasattr(terminal, "__aexit__") else terminal.__exit__
    await got(leave(asyncio.CancelledError, asyncio.CancelledError(), None))
    assert time.monotonic() - begun < LONG
    assert not wire.usable and await got(terminal.read()) == b""
