"""A private belljar: it starts, is shared, and leaves nothing behind, however its program ends."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import BINARY, LONG, ROOT, got, until

import belljar as b


def program(text: str, **how: Any) -> subprocess.Popen[str]:
    """Starts a Python program that can import this package."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **how.pop("env", {})}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **how
    )


def ended(pid: int) -> bool:
    """Whether the process has ended; a zombie counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def heard(process: subprocess.Popen[str]) -> dict[str, str]:
    """Parses the first line that a program prints: pid=…, socket=…"""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return dict(word.split("=", 1) for word in line.split())


START = """
    import os, sys, time
    from belljar import Belljar, SandboxClient, AsyncBelljar
    client = SandboxClient()
    client.get_or_create_session("u", "t")
    told = client._transport.local.ready()
    print("pid=%d socket=%s" % (told["pid"], told["socket"]), flush=True)
"""


def test_it_ends_with_the_client() -> None:
    with b.SandboxClient(mode="local") as client:
        client.get_or_create_session("u", "t")
        assert client.execute("echo hi")["stdout"] == "hi\n"
        assert client._transport is not None and client._transport.local is not None
        told = client._transport.local.ready()
        assert os.path.exists(told["socket"]) and not ended(told["pid"])
        assert os.stat(os.path.dirname(told["socket"])).st_mode & 0o077 == 0
    assert ended(told["pid"]) and not os.path.exists(told["socket"])


def test_clients_share_one_and_the_last_ends_it() -> None:
    one, two = b.Belljar.local(), b.Belljar.local()
    other = b.Belljar.local(settings={"max_concurrent_runs": 3})
    try:
        pid = one._transport.local.ready()["pid"]  # type: ignore[union-attr]
        assert two._transport.local.ready()["pid"] == pid != other._transport.local.ready()["pid"]  # type: ignore[union-attr]
        one.close()
        one.close()
        assert two.run(["echo", "hi"]).stdout == "hi\n" and not ended(pid)
    finally:
        for client in (one, two, other):
            client.close()
    assert ended(pid)
    with b.Belljar.local() as again:
        assert again.run(["echo", "hi"]).stdout == "hi\n"


def test_a_forgotten_client_is_a_closed_one() -> None:
    client = b.Belljar.local()
    pid = client._transport.local.ready()["pid"]  # type: ignore[union-attr]
    del client
    gc.collect()
    assert ended(pid)


def test_one_that_is_forgotten_while_another_is_taken() -> None:
    text = """
        import gc
        from belljar import Belljar, _local
        client, other = Belljar.local(), Belljar.local(settings={"max_concurrent_runs": 3})
        server = client._transport.local._server
        gc.disable()
        del client  # it is in a circle with its parts
        with _local._SERVERS.lock:
            gc.collect()
        print(server.process.poll() is not None, other.run(["echo", "hi"]).stdout)
    """
    process = program(text)
    out, err = process.communicate(timeout=LONG)
    assert out.split() == ["True", "hi"], err


async def test_async() -> None:
    async with b.AsyncBelljar.local() as belljar:
        runs = await asyncio.gather(*(belljar.run(["echo", str(i)]) for i in range(4)))
        assert [r.stdout for r in runs] == [f"{i}\n" for i in range(4)]
        pid = belljar._transport.local.ready()["pid"]  # type: ignore[union-attr]
    assert ended(pid)


def test_data_is_kept(tmp_path: Path) -> None:
    with b.Belljar.local(data=tmp_path / "data") as belljar:
        id = belljar.run(["echo", "kept"]).id
    with b.Belljar.local(data=tmp_path / "data") as belljar:
        assert belljar.runs.wait(id).stdout == "kept\n"


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "raise KeyError", "del client"])
def test_it_ends_with_the_program(end: str) -> None:
    process = program(START + f"    {end}\n")
    told = heard(process)
    process.communicate(timeout=LONG)
    assert ended(int(told["pid"])) and not os.path.exists(told["socket"])


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_a_killed_program(sig: signal.Signals) -> None:
    process = program(START + "    time.sleep(600)\n")
    told = heard(process)
    process.send_signal(sig)
    process.communicate(timeout=LONG)
    until(lambda: ended(int(told["pid"])) and not os.path.exists(told["socket"]))


def test_children_do_not_keep_it_and_do_not_end_it() -> None:
    process = program(
        START + """
    child = os.fork()
    if child == 0:
        try:
            client.close_session  # what a child does with it is its own affair
            other = Belljar(f"unix:{told['socket']}", api_key=told["api_key"])
            assert other.run(["echo", "x"]).ok
            del client
            import gc; gc.collect()
        finally:
            sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert client.execute("echo still here")["stdout"] == "still here\\n"
    if os.fork() == 0:
        print("child=%d" % os.getpid(), flush=True)
        time.sleep(600)
    time.sleep(600)
    """
    )  # fmt: skip
    told = heard(process)
    child = int(heard(process)["child"])
    try:
        process.kill()
        process.wait()
        until(lambda: ended(int(told["pid"])))
        assert not ended(child)
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_a_program_that_is_forked_before_it_is_ready() -> None:
    text = """
        import os, sys
        from belljar import Belljar, RuntimeUnavailableError
        client, broken = Belljar.local(), Belljar.local(binary=sys.argv[1])
        child = os.fork()
        out = client.run(["echo", "hi"]).stdout
        try:
            broken.me()
        except RuntimeUnavailableError:
            out += "broken"
        # In one piece: two processes print.
        os.write(1, " ".join(["child" if child == 0 else "parent", *out.split(), "\\n"]).encode())
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        print(client.run(["echo", "still"]).stdout, flush=True)
    """
    process = program(text.replace("sys.argv[1]", "'/bin/false'"))
    out, err = process.communicate(timeout=LONG)
    assert sorted(out.split()) == sorted("child hi broken parent hi broken still".split()), err


def test_one_that_dies_is_started_again() -> None:
    with b.SandboxClient() as client:
        client.get_or_create_session("u", "t")
        client.execute("echo x > f")
        assert client._transport is not None and client._transport.local is not None
        pid = client._transport.local.ready()["pid"]
        os.kill(pid, signal.SIGKILL)  # takes effect a moment later
        with pytest.raises(b.SessionExpiredError):
            client.execute("cat f", auto_retry=False)
        assert client.execute("cat f")["exit_code"] == 1  # a new session, without the file
        assert client._transport is not None and client._transport.local is not None
        again = client._transport.local.ready()["pid"]
        assert again != pid
        os.kill(again, signal.SIGKILL)
        until(lambda: client._transport is not None and client._transport.local is not None and not client._transport.local.alive)
        assert client.execute("echo ok")["stdout"] == "ok\n"
    with b.Belljar.local() as belljar:
        pid = belljar._transport.local.ready()["pid"]  # type: ignore[union-attr]
        os.kill(pid, signal.SIGKILL)
        until(lambda: ended(pid))
        with pytest.raises(b.UnreachableError):
            b.Belljar(belljar._transport.address.text, patience=0.1).me()


@pytest.fixture
def mortal(tmp_path: Path) -> tuple[str, Path]:
    """A fake belljar that knows one session and exits on any other request, and the file to which it logs that request."""
    fake, asked = tmp_path / "belljar", tmp_path / "asked"
    fake.write_text(textwrap.dedent(f"""\
        #!{sys.executable}
        import os, socket, sys
        listener, asked = socket.socket(socket.AF_UNIX), open("{asked}", "a")
        if os.path.exists("{tmp_path}/s"):
            os.unlink("{tmp_path}/s")
        listener.bind("{tmp_path}/s")
        listener.listen()
        print('{{"socket": "{tmp_path}/s", "api_key": "k"}}', flush=True)
        conn, _ = listener.accept()
        while b"/get_session" in (request := conn.recv(65536)):
            conn.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: 20\\r\\n\\r\\n{{"session_id":"s1"}}\\n')
        print(request.split()[1].decode(), file=asked)
        print("out of memory", file=sys.stderr)
    """))
    fake.chmod(0o755)
    return str(fake), asked


@pytest.mark.parametrize("kind", [b.Belljar, b.AsyncBelljar])
async def test_calls_of_one_that_has_died(kind: Any, mortal: tuple[str, Path]) -> None:
    client = kind.local(binary=mortal[0], patience=LONG)
    for call in (client.me, lambda: client.run("true"), client.me):
        with pytest.raises(b.UnreachableError, match="the private belljar has ended: out of memory"):
            await got(call())
    await got(client.close())


@pytest.mark.parametrize("kind", [b.Belljar, b.AsyncBelljar])
async def test_a_call_of_one_that_dies_slowly(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket refuses connections before the process has ended."""
    fake, gate = tmp_path / "belljar", tmp_path / "gate"
    os.mkfifo(gate)
    fake.write_text(textwrap.dedent(f"""\
        #!{sys.executable}
        import socket, sys
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("{tmp_path}/s")
        listener.listen()
        print('{{"socket": "{tmp_path}/s", "api_key": "k"}}', flush=True)
        conn, _ = listener.accept()
        listener.close()
        conn.close()
        open("{gate}").read()
        print("out of memory", file=sys.stderr)
    """))
    fake.chmod(0o755)
    client = kind.local(binary=str(fake), patience=LONG)
    pauses: list[float] = []

    def pause(seconds: float) -> Any:
        pauses.append(seconds)
        if len(pauses) == 2:  # one after the answer that never came, one after a refused connection
            gate.write_text("end")
            client._transport.local._server.process.wait(LONG)
        return asyncio.sleep(0) if kind is b.AsyncBelljar else None

    monkeypatch.setattr(f"belljar.{'_async' if kind is b.AsyncBelljar else '_sync'}.transport.pause", pause)
    with pytest.raises(b.UnreachableError, match="the private belljar has ended: out of memory"):
        await got(client.me())
    await got(client.close())


@pytest.mark.parametrize("kind", [b.SandboxClient, b.AsyncSandboxClient])
async def test_a_command_in_one_that_dies_is_not_sent_again(kind: Any, mortal: tuple[str, Path]) -> None:
    client = kind(binary=mortal[0])
    await got(client.get_or_create_session("u", "t"))
    with pytest.raises(b.SessionExpiredError, match="has ended"):
        await got(client.execute("echo hi"))
    assert mortal[1].read_text() == "/thread/execute\n"
    await got(client.close())


def test_a_dead_one_leaves_no_connection() -> None:
    with b.SandboxClient() as client:
        client.get_or_create_session("u", "t")
        dead = client._transport
        assert dead is not None and dead.local is not None and dead._idle
        os.kill(dead.local.ready()["pid"], signal.SIGKILL)
        until(lambda: not dead.local.alive)
        client.get_or_create_session("u", "t")
        assert client._transport is not dead and not dead._idle


def test_no_belljar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BELLJAR_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    for make in (b.SandboxClient, b.AsyncSandboxClient, b.Belljar.local, b.AsyncBelljar.local):
        with pytest.raises(b.RuntimeUnavailableError, match="on PATH") as e:
            make()
        assert "BELLJAR_BIN" in e.value.hint
    with pytest.raises(b.RuntimeUnavailableError, match="nowhere"):
        b.Belljar.local(binary="/nowhere/belljar")
    monkeypatch.setenv("BELLJAR_BIN", str(tmp_path / "gone"))
    with pytest.raises(b.RuntimeUnavailableError, match="gone"):
        b.SandboxClient()
    os.symlink(BINARY, tmp_path / "belljar")
    monkeypatch.delenv("BELLJAR_BIN")
    with b.Belljar.local() as belljar:
        assert belljar.run(["echo", "found on PATH"]).ok


@pytest.mark.parametrize(
    "script, says",
    [
        ("echo 'no namespaces here' >&2; exit 3", "no namespaces here"), ("echo hello; cat", "first line"), ("echo '{}'; cat", "first line"),
        ("exit 0", "ended before it was ready"),
    ],
)  # fmt: skip
def test_a_belljar_that_does_not_start(script: str, says: str, tmp_path: Path) -> None:
    fake = tmp_path / "belljar"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    client = b.SandboxClient(binary=str(fake))
    for _ in range(2):
        with pytest.raises(b.RuntimeUnavailableError, match=says):
            client.get_or_create_session("u", "t")
    client.close()
    for sharing in [b.Belljar.local(binary=str(fake)) for _ in range(2)]:
        with pytest.raises(b.RuntimeUnavailableError, match=says):
            sharing.me()


def test_the_hint_of_a_belljar_that_does_not_start(tmp_path: Path) -> None:
    fake = tmp_path / "belljar"
    fake.write_text("#!/bin/sh\necho 'belljar: no such folder' >&2; echo 'hint: make it' >&2; exit 125\n")
    fake.chmod(0o755)
    with pytest.raises(b.RuntimeUnavailableError) as failed:
        b.Belljar.local(binary=str(fake)).me()
    assert failed.value.message.endswith(": belljar: no such folder") and failed.value.hint == "make it"


def test_not_a_program(tmp_path: Path) -> None:
    fake = tmp_path / "belljar"
    fake.write_bytes(b"\x7fELF nonsense")
    fake.chmod(0o755)
    with pytest.raises(b.RuntimeUnavailableError, match="cannot be started"):
        b.Belljar.local(binary=str(fake))
    with pytest.raises(b.InvalidRequestError):
        b.Belljar.local(settings={"a=b --listen": 1})


def test_importing_loads_nothing() -> None:
    process = program("import sys, belljar; print(*sorted(m for m in sys.modules if m.startswith(('belljar', 'asyncio', 'ssl', 'http', 'email'))))")
    out, err = process.communicate(timeout=LONG)
    assert out.split() == ["belljar"], err
    process = program("import sys; from belljar import *; from belljar import TimeoutError as T; print(Belljar, AsyncRun, scope_prefix, T, TimeoutError)")
    out, err = process.communicate(timeout=LONG)
    assert process.returncode == 0 and "belljar.errors.TimeoutError" in out and "class 'TimeoutError'" in out, err
