"""The thread API's client: on a private belljar, on a server, and on other servers of the thread API."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from conftest import KEY, Server, got

import belljar as b


@pytest.fixture(params=["sync", "async"])
def kind(request: Any) -> Any:
    return b.SandboxClient if request.param == "sync" else b.AsyncSandboxClient


@pytest.fixture(params=["local", "remote"])
async def make(request: Any, kind: Any, server: Server) -> AsyncIterator[Callable[[], Any]]:
    """Makes clients of each kind in each mode, all with the same threads."""
    clients: list[Any] = []

    def one() -> Any:
        clients.append(kind(mode="local") if request.param == "local" else kind(mode="remote", server_url=server.url, api_key=KEY))
        return clients[-1]

    yield one
    for client in clients:
        await got(client.close())


async def test_a_conversation(make: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = make()
    assert (client.session_id, client.thread_id, client.user_id) == (None, None, None)
    made = await got(client.get_or_create_session(user_id="user_abc123", thread_id="thread_xyz789", timeout_minutes=30))
    assert made["status"] == "created" and made["workspace_dir"] == "/workspace" and made["thread_id"] == "thread_xyz789"
    assert (client.session_id, client.thread_id, client.user_id) == (made["session_id"], "thread_xyz789", "user_abc123")
    again = await got(client.get_or_create_session("user_abc123", "thread_xyz789"))
    assert again["session_id"] == made["session_id"] and again["status"] == "active"

    result = await got(client.execute("echo out; python3 -c 'import sys; print(\"err\", file=sys.stderr); sys.exit(3)'"))
    assert (result["exit_code"], result["stdout"], result["stderr"]) == (3, "out\n", "err\n") and result["execution_time_ms"] >= 0
    assert (await got(client.execute("echo begun; python3 -c 'import time; time.sleep(600)'", timeout=1)))["exit_code"] == 124

    data = bytes(range(256)) * 1000
    (tmp_path / 'da"ta é.bin').write_bytes(data)
    up = await got(client.upload_file(str(tmp_path / 'da"ta é.bin')))
    assert up == {"status": "uploaded", "filename": 'da"ta é.bin', "path": '/workspace/da"ta é.bin', "size_bytes": len(data)}
    assert (await got(client.upload_file(tmp_path / 'da"ta é.bin', "in/copy.bin")))["path"] == "/workspace/in/copy.bin"
    with pytest.raises(FileNotFoundError, match="File not found"):
        await got(client.upload_file("/nowhere/at/all"))
    assert (await got(client.execute("wc -c < in/copy.bin")))["stdout"].strip() == str(len(data))

    monkeypatch.chdir(tmp_path)
    saved = await got(client.download_file('da"ta é.bin'))
    assert saved == os.path.join(os.getcwd(), 'da"ta é.bin')
    assert await got(client.download_file("in/copy.bin", str(tmp_path / "back"))) == str(tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data
    with pytest.raises(b.NotFoundError) as e:
        await got(client.download_file("nothing"))
    assert not isinstance(e.value, b.SessionExpiredError) and not (tmp_path / "nothing").exists()
    with pytest.raises(ValueError):  # and InvalidRequestError
        await got(client.download_file("../etc/passwd", str(tmp_path / "x")))
    assert not (tmp_path / "x").exists()

    listed = await got(client.list_files())
    assert listed["session_id"] == made["session_id"] and listed["total_files"] == 2
    assert {f["name"] for f in listed["files"]} == {'da"ta é.bin', "in"}
    with pytest.raises(ValueError, match="forbidden pattern"):
        await got(client.execute("rm -rf /workspace"))

    assert await got(client.close_session()) is None
    assert (client.session_id, client.thread_id, client.user_id) == (None, None, None)
    await got(client.close_session())
    for call in (client.execute, client.upload_file, client.download_file):
        with pytest.raises(ValueError, match="No active session"):
            await got(call("x"))
    with pytest.raises(ValueError, match="No active session"):
        await got(client.list_files())


async def test_expiry(make: Any) -> None:
    client, other = make(), make()
    await got(client.get_or_create_session("u", "t", timeout_minutes=7))
    await got(client.execute("echo x > f"))
    for _ in range(2):
        await got(other.get_or_create_session("u", "t"))
        assert other.session_id == client.session_id  # both clients share the thread's session
        await got(other.close_session())  # ends the session for both
        old = client.session_id
        with pytest.raises(b.SessionExpiredError) as e:
            await got(client.execute("cat f", auto_retry=False))
        assert e.value.status == 404 and isinstance(e.value, b.NotFoundError) and client.session_id == old
        with pytest.raises(b.SessionExpiredError):
            await got(client.list_files())
        with pytest.raises(b.SessionExpiredError):
            await got(client.download_file("f", "/tmp/never"))
        result = await got(client.execute("cat f"))  # in a new session, without the file
        assert result["exit_code"] == 1 and client.session_id != old and client.thread_id == "t"
    await got(client.close_session())


async def test_with(kind: Any, server: Server) -> None:
    client = kind("remote", server.url, api_key=KEY)
    if hasattr(client, "__enter__"):
        with client:
            id = client.get_or_create_session("u", "with")["session_id"]
    else:
        async with client:
            id = (await client.get_or_create_session("u", "with"))["session_id"]
    assert client.session_id is None
    with b.Belljar(server.url, api_key=KEY) as belljar:
        assert belljar.sessions.get(id).state == "closed"
    again = await got(client.get_or_create_session("u", "with"))  # a closed client is usable again
    assert again["status"] == "created" and again["session_id"] != id
    await got(client.close())


async def test_as_it_is_called(kind: Any) -> None:
    """Names, order and defaults of arguments match the thread API."""
    want = {
        "get_or_create_session": [("user_id", None), ("thread_id", None), ("timeout_minutes", 30)],
        "execute": [("command", None), ("timeout", 30), ("auto_retry", True)],
        "upload_file": [("file_path", None), ("remote_name", None)],
        "download_file": [("remote_name", None), ("local_path", None)],
        "list_files": [],
        "close_session": [],
    }
    for name, arguments in want.items():
        given = list(inspect.signature(getattr(kind, name)).parameters.values())[1:]
        assert [(p.name, None if p.default is p.empty else p.default) for p in given] == arguments, name
    first = list(inspect.signature(kind).parameters.values())[:2]
    assert [(p.name, p.default) for p in first] == [("mode", "local"), ("server_url", None)]
    with pytest.raises(ValueError, match="server_url required for remote mode"):
        kind(mode="remote")
    with pytest.raises(ValueError, match="mode"):
        kind(mode="distant")


def foreign(prefix: str, detail: bool, sessions: list[str]) -> Any:
    """An independent implementation of a thread API server, at a prefix."""

    def act(a: Any) -> None:
        while True:
            raw = a.request()
            line = raw.split(b"\r\n")[0].decode()
            method, target, _ = line.split(" ")
            body = raw.partition(b"\r\n\r\n")[2]

            def fail(status: int, **what: Any) -> None:
                a.answer(status, {"detail": what} if detail else what)

            if not target.startswith(prefix + "/") or prefix == "" and target.startswith("/thread"):
                a.answer(404, {"detail": "Not Found"}) if detail else a.answer(404, b"<html>404", kind="text/html")
                continue
            op = target[len(prefix) + 1 :].partition("?")[0]
            if op == "get_session":
                fail(404, error="No active session found for thread_id")
            elif op == "create_session":
                sessions.append(f"s{len(sessions)}")
                a.answer(409 if len(sessions) > 1 else 200, {"session_id": sessions[-1], "status": "existing" if len(sessions) > 1 else "created"})
            elif op == "execute":
                asked = json.loads(body)
                if asked["session_id"] == "s0":
                    fail(404, error="Invalid or expired session")
                elif asked["command"] == "bad":
                    fail(400, error="Command contains forbidden pattern", command="bad")
                else:
                    a.answer(200, {"exit_code": 0, "stdout": asked["command"], "stderr": "", "execution_time_ms": 1})
            elif op == "download_file":
                fail(404, error="File not found in workspace", filename="f") if b"missing" in body else a.answer(200, b"\x00data", kind="application/octet-stream")
            elif op == "upload_file":
                assert re.search(rb'name="file"; filename="in.bin"\r\n', raw) and b'name="session_id"\r\n\r\ns1\r\n' in raw
                a.answer(200, {"status": "uploaded"})
            else:
                fail(500, error="broken")

    return act


@pytest.mark.parametrize("prefix", ["", "/thread"])
@pytest.mark.parametrize("detail", [False, True])
async def test_servers_of_others(kind: Any, stage: Any, prefix: str, detail: bool, tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    sessions: list[str] = []
    s = stage(forever=foreign(prefix, detail, sessions))
    client = kind("remote", s.url + "/")
    assert (await got(client.get_or_create_session("u", "t")))["session_id"] == "s0"
    assert (await got(client.execute("hello")))["stdout"] == "hello" and client.session_id == "s1"  # s0 had expired
    with pytest.raises(b.InvalidRequestError, match="forbidden"):
        await got(client.execute("bad"))
    (tmp_path / "in.bin").write_bytes(b"x")
    assert (await got(client.upload_file(tmp_path / "in.bin"))) == {"status": "uploaded"}
    assert (await got(client.download_file("f", tmp_path / "out"))) == str(tmp_path / "out") and (tmp_path / "out").read_bytes() == b"\x00data"
    with pytest.raises(b.NotFoundError) as e:
        await got(client.download_file("missing", tmp_path / "no"))
    assert not isinstance(e.value, b.SessionExpiredError)
    with pytest.raises(b.InternalError):
        await got(client.list_files())
    await got(client.close())  # an error is logged, not raised
    assert client.session_id is None and "Cleanup failed" in caplog.text
    assert len([r for r in s.requests if b" /thread" in r.split(b"\r\n")[0]]) == (1 if prefix == "" else len(s.requests))


async def test_a_failure_does_not_say_where_the_api_is(kind: Any, stage: Any) -> None:
    s = stage(lambda a: a.request(), lambda a: (a.request(), a.answer(401, b"", "Connection: close\r\n", kind="text/plain")), forever=foreign("", False, []))
    client = kind("remote", s.url, patience=0.0)
    for failure in (b.UnreachableError, b.UnauthorizedError):
        with pytest.raises(failure):
            await got(client.get_or_create_session("u", "t"))
    assert (await got(client.get_or_create_session("u", "t")))["session_id"] == "s0"
    client.session_id = None
    await got(client.close())


async def test_a_command_is_never_sent_twice(kind: Any, stage: Any) -> None:
    s = stage(lambda a: (a.request(), a.answer(200, {"session_id": "s1", "status": "active"}, "Connection: close\r\n")), lambda a: a.request())
    client = kind("remote", s.url)
    await got(client.get_or_create_session("u", "t"))
    with pytest.raises(b.UnreachableError):
        await got(client.execute("echo x >> f"))
    assert len(s.requests) == 2
    client.session_id = None
    await got(client.close())


async def test_nothing_of_the_kind(kind: Any, stage: Any) -> None:
    def act(a: Any) -> None:
        while True:
            a.request()
            a.answer(404, b"<html>", kind="text/html")

    client = kind("remote", stage(forever=act).url)
    with pytest.raises(b.BelljarError, match="404"):
        await got(client.get_or_create_session("u", "t"))
    await got(client.close())


async def test_the_door_by_its_own_address(kind: Any, stage: Any) -> None:
    sessions: list[str] = []
    client = kind("remote", stage(forever=foreign("/thread", False, sessions)).url + "/thread/")
    assert (await got(client.get_or_create_session("u", "t")))["session_id"] == "s0"
    assert (await got(client.execute("hello")))["stdout"] == "hello"
    client.session_id = None
    await got(client.close())


async def test_no_key(kind: Any, server: Server) -> None:
    client = kind("remote", server.url)
    with pytest.raises(b.UnauthorizedError):
        await got(client.get_or_create_session("u", "t"))
    await got(client.close())
