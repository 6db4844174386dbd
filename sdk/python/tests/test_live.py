"""Both clients against a real server."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import io
import tarfile
import threading
from typing import Any

import pytest
from conftest import KEY, LONG, Server, each, got

import belljar as b


async def test_runs(belljar: Any) -> None:
    run = await got(belljar.run(["sh", "-c", "echo out; echo err >&2; exit 3"]))
    assert (run.phase, run.exit_code, run.reason_code, run.stdout, run.stderr) == ("failed", 3, "nonzero_exit", "out\n", "err\n")
    assert not run.ok and run.ended and not run.truncated and run.raw["run_id"] == run.id
    run = await got(belljar.run("echo $((6 * 7))"))
    assert run.ok and run.stdout == "42\n"
    run = await got(belljar.run(code="import sys; print(sys.stdin.read().upper())", language="python", stdin="grüße", env={"X": "y"}))
    assert run.stdout == "GRÜSSE\n"
    assert (run.env_names, run.network, run.snapshot_digest, run.failure) == (["X"], None, "", None)
    run = await got(belljar.run(code="def half(n):\n    return n / 0\n\nhalf(1)\n", language="python"))
    assert [run.failure[name] for name in ("language", "type", "message")] == ["python", "ZeroDivisionError", "division by zero"]
    assert [(f["line"], f["function"]) for f in run.failure["frames"]] == [(2, "half"), (4, "<module>")]
    assert (await got(belljar.runs.get(run.id))).failure == run.failure
    run = await got(belljar.run(["printf", "\\000\\377"]))
    assert run.stdout_bytes == b"\x00\xff" and run.stdout == "\x00�"
    page = await got(belljar.runs.list(limit=2))
    assert len(page["items"]) == 2 and page["has_more"]
    again = await got(belljar.runs.get(run.id))
    assert again.phase == "completed" and not again.printed
    assert (await got(again.wait(LONG))).stdout_bytes == b"\x00\xff"


async def test_files_and_artifacts(belljar: Any, tmp_path: Any) -> None:
    run = await got(belljar.run(
        "wc -c < in.bin > out/size.txt; printf 'a\\0b' > 'out/two words é'", files={"in.bin": io.BytesIO(bytes(range(256))), "out/.keep": ""}, capture=["out/*"],
    ))  # fmt: skip
    names = [a["path"] for a in await got(run.artifacts())]
    assert set(names) == {"out/.keep", "out/size.txt", "out/two words é"}
    assert (await got(run.artifact("out/size.txt"))).strip() == b"256"
    await got(belljar.runs.save_artifact(run.id, "out/two words é", tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == b"a\0b"
    with pytest.raises(b.NotFoundError):
        await got(run.artifact("nothing"))


async def test_output_that_is_large_and_binary(belljar: Any) -> None:
    code = "import os,sys\nfor i in range(48): sys.stdout.buffer.write(bytes(range(256)) * 256)\n"
    run = await got(belljar.runs.start(code=code, language="python"))
    whole = b"".join([f.data async for f in each(run.logs()) if f.type == "stdout"])
    assert whole == bytes(range(256)) * 256 * 48
    await got(run.wait(LONG))
    other = await got(belljar.run(code=code, language="python"))
    assert run.truncated and other.truncated and run.stdout_bytes == other.stdout_bytes  # the server and the client cut the output in the same way
    assert run.raw["stdout_omitted_bytes"] == other.raw["stdout_omitted_bytes"]


async def test_a_key_is_one_run(belljar: Any) -> None:
    key = "key-" + type(belljar).__name__
    first = await got(belljar.run(["echo", "once"], idempotency_key=key))
    again = await got(belljar.run(["echo", "once"], idempotency_key=key))
    assert first.id == again.id and again.stdout == "once\n"
    with pytest.raises(b.IdempotencyConflictError) as e:
        await got(belljar.run(["echo", "twice"], idempotency_key=key))
    assert isinstance(e.value, b.ConflictError) and e.value.details["prior_id"] == first.id


async def test_following_and_cancelling(belljar: Any) -> None:
    run = await got(belljar.runs.start("echo ready; exec sleep 600"))
    async for frame in each(run.logs()):
        if frame.text == "ready\n":
            await got(run.cancel())
    assert frame.last and frame.info["phase"] == "killed"
    await got(run.refresh())
    assert (run.phase, run.reason_code) == ("killed", "canceled_by_user")
    assert (await got(belljar.runs.cancel(run.id)))["status"] == "finished"
    with pytest.raises(TimeoutError):
        await got(belljar.run(["sleep", "600"], wait=0.1, labels={"test": "over"}))
    slow = await got(belljar.runs.start(["sleep", "600"], timeout=0.2))
    assert (await got(slow.wait(LONG))).phase == "timed_out"


async def test_output_as_it_comes(belljar: Any, session: Any) -> None:
    seen: list[Any] = []
    run = await got(belljar.run("echo one; echo two >&2", on_output=seen.append))
    assert {f.type for f in seen} == {"stdout", "stderr"} and (run.stdout, run.stderr, run.ok) == ("one\n", "two\n", True)
    seen.clear()
    result = await got(belljar.sessions.use(session.id).shell("echo three; (exit 5)", on_output=seen.append))
    assert b"".join(f.data for f in seen) == b"three\n" and result.exit_code == 5

    def fail(frame: Any) -> None:
        raise RuntimeError(frame.text)

    async def later(frame: Any) -> None:
        await asyncio.sleep(0)
        fail(frame)

    waits = isinstance(belljar, b.AsyncBelljar)
    for on_output, kind, match in ((fail, RuntimeError, "ready"), (later, RuntimeError if waits else TypeError, "ready" if waits else "async")):
        with pytest.raises(kind, match=match):
            await got(session.run("echo ready; exec sleep 600", on_output=on_output))
        await got(belljar._transport.leaving.wait())
        (newest,) = (await got(belljar.runs.list(session=session.id, limit=1)))["items"]
        assert (await got(belljar.runs.wait(newest["id"], LONG))).reason_code == "canceled_by_user"


async def test_input(belljar: Any) -> None:
    run = await got(belljar.runs.start(["sh", "-c", "read a; echo got $a; cat"], interactive=True))
    stdin = await got(run.stdin())
    await got(stdin.write("one\n"))
    await got(stdin.write(b"\xff\x00" + b"x" * 100_000))
    await got(stdin.end())
    assert stdin.reason == "client"
    await got(stdin.close())
    assert (await got(run.wait(LONG))).stdout_bytes == b"got one\n\xff\x00" + b"x" * 100_000
    with pytest.raises(b.ConflictError):
        await got(run.stdin())
    limits = {"stdin_max_bytes": 100_000, "stdin_max_frame_bytes": 50_000, "stdin_bps": 1 << 20, "stdin_idle_timeout": LONG}
    full = await got((await got(belljar.runs.start(["cat"], interactive=True, **limits))).stdin())
    with pytest.raises(b.QuotaExceededError, match="stdin_max_bytes is 100000") as e:
        await got(full.write(bytes(100_001)))
        await got(full.end())
    assert e.value.details == {"reason": "stdin_max_bytes", "maximum": 100_000} and "as a file" in e.value.hint
    await got(full.close())
    other = await got(belljar.runs.start(["true"]))
    with pytest.raises(b.ConflictError):
        await got(other.stdin())


async def test_sessions(belljar: Any) -> None:
    kind = type(belljar).__name__
    scope = ("workflow", f"{kind}: 1", "build")
    first = await got(belljar.sessions.open(*scope, env={"A": "b"}, ttl=900))
    try:
        again = await got(belljar.sessions.open(*scope))
        assert first.created and not again.created and first.id == again.id
        prefix = b.scope_prefix("workflow", f"{kind}: 1")
        assert first.scope == prefix + "build"
        assert [s["session_id"] for s in (await got(belljar.sessions.list(key_prefix=prefix)))["items"]] == [first.id]
        assert (await got(first.run("echo $A > f; cat f"))).stdout == "b\n"
        assert (await got((await got(belljar.sessions.get(first.id))).files.read("f"))) == b"b\n"
        assert await got(belljar.sessions.close_all(prefix)) == [first.id]
        assert (await got(first.refresh())).state == "closed"
        with pytest.raises(b.ConflictError):
            await got(first.run(["true"]))
    finally:
        await got(first.close())
        await got(first.close())


async def test_the_workspace(session: Any, tmp_path: Any) -> None:
    files = session.files
    entry = await got(files.write("a/b.txt", "grüße"))
    assert entry["size"] == 7 and entry["mode"] == "0644"
    with pytest.raises(b.ConflictError):
        await got(files.write("a/b.txt", "x"))
    written = await got(files.write("a/b.txt", "one", if_match='"' + hashlib.sha256("grüße".encode()).hexdigest() + '"'))
    with pytest.raises(b.PreconditionFailedError):
        await got(files.write("a/b.txt", "two", if_match='"other"', overwrite=True))
    await got(files.write("a/b.txt", "two", if_match=written["etag"]))
    await got(files.write("a/b.txt", b"\x00\xff", overwrite=True, mode=0o755))
    assert (await got(files.stat("a/b.txt")))["mode"] == "0755"
    with pytest.raises(UnicodeDecodeError):
        await got(files.read_text("a/b.txt"))
    big = bytes(range(256)) * 8000
    (tmp_path / "big").write_bytes(big)
    await got(files.upload(tmp_path / "big"))
    await got(files.download("big", tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == big
    assert await got(files.read("big", offset=256, limit=3)) == b"\x00\x01\x02"
    assert await got(files.read("big", offset=len(big))) == b"" and await got(files.read("big", limit=0)) == b""
    await got(files.write_all({"x/1": "one", "x/2": b"two"}))
    assert [e["path"] for e in await got(files.list("x"))] == ["x/1", "x/2"]
    found = await got(files.search(name="*", content="tw", path="x"))
    assert [(m["path"], m["line"]) for m in found["matches"]] == [("x/2", 1)]
    await got(files.mkdir("y/z"))
    await got(files.rename("x/1", "y/z/1"))
    with tarfile.open(fileobj=io.BytesIO(await got(files.archive("y")))) as tar:
        assert any(name.endswith("z/1") for name in tar.getnames())
    await got(files.unpack(await got(files.archive("y", format="zip")), format="zip", dir="copy"))
    assert await got(files.exists("copy")) and not await got(files.exists("nothing"))
    await got(files.delete("y", recursive=True))
    with pytest.raises(b.NotFoundError):
        await got(files.read("y/z/1"))
    for path in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(b.PathEscapesError):
            await got(files.read(path))
    assert (await got(files.space()))["bytes"] > len(big)
    with pytest.raises(b.PayloadTooLargeError):
        await got(files.write("huge", io.BytesIO(b"x" * (300 << 20))))
    await got(files.write("most", io.BytesIO(b"x" * (200 << 20))))
    with pytest.raises(b.DiskFullError) as e:
        await got(files.write("more", io.BytesIO(b"x" * (100 << 20))))
    assert e.value.details["scope"] == "workspace" and not await got(files.exists("more"))


async def test_code_remembers(session: Any) -> None:
    assert (await got(session.code("x = 41"))).value == ""
    r = await got(session.code("print('out'); display('shown'); x + 1"))
    assert (r.value, r.stdout, r.context["state"], r.error) == ("42", "out\n", "kept", None) and [k["type"] for k in r.results] == ["display", "value"]
    seen: list[Any] = []
    r = await got(session.code("print('out')\n1/0", on_output=seen.append))  # this reads the results from the log
    assert r.error["name"] == "ZeroDivisionError" and r.exit_code == 1 and {f.type for f in seen} == {"stdout", "stderr"}
    assert (await got(session.code("echo $((6 * 7))", language="bash"))).stdout == "42\n"
    assert [c["name"] for c in await got(session.contexts())] == ["bash", "python"]
    await got(session.restart_context("python"))
    assert (await got(session.code("x"))).error["name"] == "NameError"
    await got(session.delete_context("bash"))
    assert (await got(session.create_context("python")))["language"] == "python"


async def test_the_shell(session: Any) -> None:
    assert (await got(session.shell("mkdir -p src; cd src; export X='a b'"))).cwd == "/workspace/src"
    r = await got(session.shell("echo $X; echo err >&2; false", separate=True))
    assert (r.exit_code, r.stdout, r.stderr, r.shell) == (1, "a b\n", "err\n", "kept")
    assert (await got(session.shell("cat", stdin="typed"))).output == "typed"
    assert (await got(session.shell("exit 3"))).shell == "replaced"
    r = await got(session.shell("sleep 600", timeout=2))
    assert r.timed_out and r.exit_code == 124
    frames = [f async for f in each(session.shell_stream("for i in 1 2 3; do echo $i; done; (exit 5)"))]
    assert b"".join(f.data for f in frames) == b"1\n2\n3\n" and frames[-1].last and frames[-1].info["exit_code"] == 5


async def test_ports(belljar: Any, session: Any) -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 3000)); print('ready', flush=True); s.accept()"
    run = await got(session.start(["python3", "-c", code]))
    async for frame in each(run.logs()):
        if frame.text == "ready\n":
            break
    listed = await got(session.ports())
    assert [(p["port"], p["address"], p["program"]) for p in listed] == [(3000, "127.0.0.1", "python3")]
    assert await got(session.previews()) == []
    with pytest.raises(b.PolicyDeniedError) as e:
        await got(session.preview(3000))
    assert "SANDBOX_PREVIEW_DOMAIN" in e.value.hint
    with pytest.raises(b.NotFoundError):
        await got(session.revoke_preview("x"))


async def test_usage(belljar: Any) -> None:
    session = await got(belljar.sessions.create())
    run = await got(session.start(["sh", "-c", "while :; do :; done"]))
    async for sample in each(run.usage()):
        assert sample["scope"] == "session" and "at" in sample
        if sample.get("cpu_percent"):
            await got(run.cancel())
    assert (await got(run.refresh())).reason_code == "canceled_by_user"
    async for sample in each(session.usage()):
        assert sample["memory_bytes"] >= 0 and sample["pids"] >= 0
        await got(session.close())
    assert (await got(session.refresh())).state == "closed"
    with pytest.raises(b.NotFoundError):
        async for sample in each(belljar.runs.usage("01900000-0000-7000-8000-000000000000")):
            raise AssertionError(sample)


async def test_terminals(belljar: Any, session: Any) -> None:
    terminal = await got(session.terminal(cols=100, rows=30, command=["bash", "--norc"]))
    await got(terminal.write("stty size; echo $((40 + 2))ü\n"))
    assert b"30 100" in await got(terminal.read_until("42ü", LONG))
    await got(terminal.write("echo wait''ing; read -r _; stty size; echo re''sized\n"))
    await got(terminal.read_until("waiting", LONG))  # bash reads and sets the size before each prompt, so wait for that
    await got(terminal.resize(50, 20))
    await got(terminal.write("\n"))
    assert b"20 50" in await got(terminal.read_until("resized", LONG))
    with pytest.raises(b.InvalidRequestError):
        await got(terminal.resize(0, 20))
    id = terminal.id
    assert [t["terminal_id"] for t in await got(session.terminals())] == [id]
    await got(terminal.close())
    assert await got(terminal.read()) == b""
    with pytest.raises(b.ConflictError):
        await got(terminal.write("x"))
    back = await got(belljar.terminals.attach(id))
    assert b"42" in await got(back.read(LONG))  # the earlier output
    other = await got(belljar.terminals.attach(id))
    async for _ in each(back):
        pass
    assert back.reason == "replaced"
    await got(back.close())
    with pytest.raises(TimeoutError):
        while True:
            await got(other.read(0.3))
    await got(other.write("exit 7\n"))
    async for _ in each(other):
        pass
    assert (other.exit_code, other.reason) == (7, "exit")
    await got(other.close())
    with pytest.raises(b.NotFoundError):
        await got(belljar.terminals.attach("01900000-0000-7000-8000-000000000000"))
    third = await got(session.terminal())
    await got(third.end())


async def test_what_is_there(belljar: Any) -> None:
    assert any(i["ref"] == "host" for i in await got(belljar.images.list()))
    assert (await got(belljar.images.inspect("host")))["ref"] == "host"
    assert any(r["name"] == "native" and r["available"] for r in (await got(belljar.runtimes()))["runtimes"])
    assert (await got(belljar.me()))["role"] == "admin"
    presets = {p["name"]: p for p in await got(belljar.network_presets())}
    assert len(presets) == 7 and not presets["pip"]["enabled"] and "SANDBOX_EGRESS_PRESETS" in presets["pip"]["hint"]
    with pytest.raises(b.PolicyDeniedError):
        await got(belljar.run(["true"], network_policy="allowlist", egress={"presets": ["pip"]}))


async def test_strangers(server: Server) -> None:
    with b.Belljar(server.url, api_key="wrong") as stranger:
        with pytest.raises(b.UnauthorizedError):
            stranger.me()
        with pytest.raises(b.UnauthorizedError):
            list(stranger.runs.logs("x"))


def test_many_threads_on_one_client(server: Server) -> None:
    with b.Belljar(server.url, api_key=KEY) as belljar, belljar.sessions.create() as session:
        results: dict[int, str] = {}

        def work(i: int) -> None:
            for j in range(5):
                results[10 * i + j] = session.run(["echo", str(10 * i + j)]).stdout

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(LONG)
        assert results == {10 * i + j: f"{10 * i + j}\n" for i in range(6) for j in range(5)}


async def test_many_tasks_on_one_client(server: Server) -> None:
    async with b.AsyncBelljar(server.url, api_key=KEY) as belljar, await belljar.sessions.create() as session:
        runs = await asyncio.gather(*(session.run(["echo", str(i)]) for i in range(20)))
        assert [r.stdout for r in runs] == [f"{i}\n" for i in range(20)]


async def test_a_cancelled_task_cancels_its_run(server: Server) -> None:
    async with b.AsyncBelljar(server.url, api_key=KEY) as belljar, await belljar.sessions.create() as session:
        for cancel, phase in ((True, "killed"), (False, "running")):
            task = asyncio.ensure_future(session.run("touch begun; exec sleep 600", cancel=cancel))
            while not await session.files.exists("begun"):
                await asyncio.sleep(0.02)
            await session.files.delete("begun")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await belljar._transport.leaving.wait()
            (newest,) = (await belljar.runs.list(session=session.id, limit=1))["items"]
            while newest["phase"] == "starting" or phase == "killed" and newest["phase"] == "running":  # the grace period after TERM
                newest = (await belljar.runs.get(newest["id"])).raw  # type: ignore[assignment]
                await asyncio.sleep(0.02)
            assert newest["phase"] == phase
        assert (await session.run(["echo", "ok"])).stdout == "ok\n"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_after_another(server: Server) -> None:
    client = b.AsyncBelljar(server.url, api_key=KEY)

    async def use() -> str:
        return (await client.run(["echo", "x"])).stdout

    assert asyncio.run(use()) == "x\n"
    assert asyncio.run(use()) == "x\n"  # with new connections
    asyncio.run(client.close())
    gc.collect()  # triggers asyncio's warnings about the first loop here rather than in another test


def test_a_forked_child_has_connections_of_its_own(server: Server) -> None:
    import os

    with b.Belljar(server.url, api_key=KEY) as belljar:
        assert belljar.run(["echo", "parent"]).stdout == "parent\n"
        child = os.fork()
        if child == 0:
            good = False
            try:
                good = all(belljar.run(["echo", "child"]).stdout == "child\n" for _ in range(5))
            finally:
                os._exit(0 if good else 1)
        for _ in range(5):
            assert belljar.run(["echo", "parent"]).stdout == "parent\n"
        assert os.waitpid(child, 0)[1] == 0


def test_a_server_that_is_killed_and_comes_back(fragile: Server) -> None:
    """A followed log loses nothing when the server is killed and restarted."""
    with b.Belljar(fragile.url, api_key=KEY, patience=LONG) as belljar:
        session = belljar.sessions.create()
        run = session.start("mkfifo go; for i in $(seq 1 3000); do echo $i; done; cat go; echo end", timeout=10 * LONG)
        text, seqs, died = b"", [], False
        for frame in run.logs():
            seqs.append(frame.seq)
            text += frame.data
            if not died and b"\n3000\n" in text:
                died = True
                fragile.kill()
                fragile.start()
                assert session.run("echo > go").ok
        assert died and text == b"".join(b"%d\n" % i for i in range(1, 3001)) + b"\nend\n"
        assert seqs == list(range(1, len(seqs) + 1))


async def test_operators(belljar: Any) -> None:
    made = await got(belljar.tokens.create("ann", name="tests", ttl=600))
    assert made["role"] == "user" and made["secret"]
    with b.Belljar(belljar._transport.address.text, api_key=made["secret"]) as ann:
        run = ann.run(["true"])
        assert ann.me()["user_id"] == "ann"
        with pytest.raises(b.ForbiddenError):
            ann.tokens.list()
        with pytest.raises(b.ForbiddenError):
            ann.admin.usage()
    listed = [t for t in await got(belljar.tokens.list()) if t["id"] == made["id"]]
    assert len(listed) == 1 and "secret" not in listed[0]
    page = await got(belljar.admin.runs(user_id="ann", phase="completed", image="host", sort="started_at:asc", limit=200))
    assert run.id in [r["id"] for r in page["items"]]
    assert (await got(belljar.admin.run(run.id)))["exit_code"] == 0
    assert [u for u in await got(belljar.admin.usage(200)) if u["user_id"] == "ann"]
    before = await got(belljar.admin.quota("ann"))
    assert (await got(belljar.admin.set_quota("ann", {**before, "concurrent_runs": 3})))["concurrent_runs"] == 3
    await got(belljar.admin.delete_quota("ann"))
    assert await got(belljar.admin.quota("ann")) == before
    key = b"python".hex() + str(id(belljar))
    await got(belljar.run(["true"], idempotency_key=key))
    assert key in [k["key"] for k in await got(belljar.admin.idempotency(endpoint="runs", limit=200))]
    await got(belljar.tokens.revoke(made["id"]))
    with b.Belljar(belljar._transport.address.text, api_key=made["secret"]) as ann, pytest.raises(b.UnauthorizedError):
        ann.me()


async def test_secrets(belljar: Any) -> None:
    value = "correct horse battery"
    stored = await got(belljar.secrets.set("PYTHON", value))
    assert stored["name"] == "PYTHON" and "value" not in stored
    assert [s["name"] for s in await got(belljar.secrets.list()) if s["name"] == "PYTHON"] == ["PYTHON"]
    run = await got(belljar.run("cmp /run/secrets/[AB] && cat /run/secrets/A", secrets={"A": {"from": "PYTHON"}, "B": {"value": value}}))
    assert run.ok and run.stdout == "*" * len(value)
    session = await got(belljar.sessions.create(secrets={"A": {"from": "PYTHON"}}))
    assert (await got(session.run(["cat", "/run/secrets/A"]))).stdout == "*" * len(value)
    await got(session.close())
    with pytest.raises(b.InvalidRequestError):
        await got(belljar.run(["true"], secrets={"A": {"value": "short"}}))
    await got(belljar.secrets.remove("PYTHON"))
    with pytest.raises(b.NotFoundError):
        await got(belljar.secrets.remove("PYTHON"))


async def test_snapshots(belljar: Any) -> None:
    session = await got(belljar.sessions.create())
    await got(session.files.write("file", b"text"))
    made = await got(session.snapshot("python"))
    assert made["name"] == "python" and made["files"] == 1 and made["bytes"] == 4
    assert [s["snapshot_id"] for s in await got(belljar.snapshots.list()) if s["name"] == "python"] == [made["snapshot_id"]]
    assert (await got(belljar.snapshots.get(made["snapshot_id"])))["digest"] == made["digest"]
    assert (await got(session.hibernate()))["state"] == "hibernated" and await got(session.files.read("file")) == b"text"
    restored = await got(belljar.sessions.create(snapshot=made["snapshot_id"]))
    for copy in [restored, *(await got(restored.fork(2)))]:
        assert copy.id != session.id and await got(copy.files.read("file")) == b"text"
        await got(copy.close())
    run = await got(belljar.run(["cat", "/snapshot/file"], snapshot=made["snapshot_id"]))
    assert run.stdout == "text" and run.snapshot_digest == made["digest"]
    archive = await got(belljar.snapshots.export(made["snapshot_id"]))
    assert "sha256:" + hashlib.sha256(archive).hexdigest() == made["digest"]
    again = await got(belljar.snapshots.import_(archive, "again"))
    assert again["digest"] == made["digest"]
    for x in (made, again):
        await got(belljar.snapshots.remove(x["snapshot_id"]))
    with pytest.raises(b.NotFoundError):
        await got(belljar.snapshots.get(made["snapshot_id"]))
    await got(session.close())


async def test_images(belljar: Any) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("etc/made-by")
        entry.size = 6
        tar.addfile(entry, io.BytesIO(b"python"))
    told: list[Any] = []
    image = await got(belljar.images.import_(archive.getvalue(), "python-sdk:1", progress=told.append))
    assert image["ref"].endswith("python-sdk:1") and told[-1] == {"phase": "done", "done": 6, "total": 6}
    archive.seek(0)
    assert (await got(belljar.images.import_(archive, "python-sdk:2")))["digest"] == image["digest"]
    await got(belljar.images.tag("python-sdk:1", "python-sdk:3"))
    assert (await got(belljar.images.inspect("python-sdk:3")))["digest"] == image["digest"]
    await got(belljar.images.remove("python-sdk:3"))
    with pytest.raises(b.NotFoundError):
        await got(belljar.images.inspect("python-sdk:3"))
    with pytest.raises(b.InvalidRequestError):
        await got(belljar.images.prune())
    assert image["digest"] in (await got(belljar.images.prune(all=True)))["images"]
    with pytest.raises(b.ImageInvalidError):
        await got(belljar.images.import_(b"no archive", "x:1"))
