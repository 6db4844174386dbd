"""The driver of test/scenario for this package: ``scenario.py [--async] SCENARIO``. test/scenario/README.md describes it."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import sys
from binascii import a2b_base64, b2a_base64
from collections.abc import AsyncIterator
from typing import Any

from belljar import AsyncBelljar, Belljar, BelljarError


async def got(value: Any) -> Any:
    """The result of a call of either client."""
    return await value if inspect.isawaitable(value) else value


async def each(values: Any) -> AsyncIterator[Any]:
    """The items of an iterator of either client."""
    if hasattr(values, "__aiter__"):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value


async def leave(values: Any) -> None:
    """Closes an iterator before its end."""
    await got(values.aclose() if hasattr(values, "aclose") else values.close())


def given(what: Any) -> bytes:
    """Decodes bytes of a step."""
    if isinstance(what, str):
        return what.encode()
    return a2b_base64(what["base64"]) if "base64" in what else what["repeat"].encode() * what["times"]


def shown(data: bytes) -> Any:
    """Encodes bytes for a result."""
    if len(data) > 1024:
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b2a_base64(data, newline=False).decode()}


class Driver:
    def __init__(self, client: Any) -> None:
        self.client = client
        self.saved: dict[str, str] = {}
        self.sessions: dict[str, Any] = {}
        self.seen: dict[str, str] = {}

    async def play(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            if "python" in step.get("except", {}):
                continue
            how = dict(step["with"])
            for name in ("run", "session"):
                if how.get(name, "").startswith("$"):
                    how[name] = self.saved[how[name][1:]]
            try:
                result = await getattr(self, "do_" + step["do"])(**how)
            except BelljarError as e:
                result = {"error": {"code": e.code, "hint": bool(e.hint)}}
            for name in ("run", "session"):
                if name in result:
                    id = result[name]
                    if "save" in step:
                        self.saved[step["save"]] = id
                    result[name] = self.seen.get(id, "new")
                    self.seen.setdefault(id, step["step"])
            print(json.dumps({"step": step["step"], "result": result}), flush=True)

    def options(self, how: dict[str, Any]) -> dict[str, Any]:
        """Converts a step's options to arguments of run and start."""
        how = dict(how)
        if "stdin" in how:
            how["stdin"] = given(how["stdin"])
        if "files" in how:
            how["files"] = {name: given(content) for name, content in how["files"].items()}
        if "timeout_sec" in how:
            how["timeout"] = how.pop("timeout_sec")
        if "memory_mb" in how:
            how["resources"] = {"memory_mb": how.pop("memory_mb")}
        return how

    def standing(self, run: Any) -> dict[str, Any]:
        return {"run": run.id, "phase": run.phase, "exit_code": run.exit_code, "reason_code": run.reason_code or None}

    def ended(self, run: Any) -> dict[str, Any]:
        return {**self.standing(run), "stdout": shown(run.stdout_bytes), "stderr": shown(run.stderr_bytes)}

    async def do_run(self, **how: Any) -> dict[str, Any]:
        return self.ended(await got(self.client.run(**self.options(how))))

    do_exec = do_run

    async def do_start(self, **how: Any) -> dict[str, Any]:
        return {"run": (await got(self.client.runs.start(**self.options(how)))).id}

    async def do_wait(self, run: str) -> dict[str, Any]:
        return self.ended(await got(self.client.runs.wait(run)))

    async def do_get(self, run: str) -> dict[str, Any]:
        return self.standing(await got(self.client.runs.get(run)))

    async def do_cancel(self, run: str) -> dict[str, Any]:
        await got(self.client.runs.cancel(run))
        return {}

    async def do_logs(self, run: str, piece: int = 0, until: str = "") -> dict[str, Any]:
        seq, stdout, gapless, phase, over = 0, b"", True, None, False
        while not over:
            frames, taken = self.client.runs.logs(run, since_seq=seq), 0
            async for frame in each(frames):
                gapless = gapless and frame.seq == seq + 1
                seq, taken = frame.seq, taken + 1
                if frame.type == "stdout":
                    stdout += frame.data
                    over = bool(until) and until.encode() in stdout
                elif frame.last:
                    phase, over = frame.info["phase"], True
                if over or taken == piece:
                    break
            await leave(frames)
        return {"stdout": shown(stdout), "gapless": gapless, "phase": phase}

    async def do_artifacts(self, run: str) -> dict[str, Any]:
        return {"artifacts": [{"path": a["path"], "size": a["size"]} for a in await got(self.client.runs.artifacts(run))]}

    async def do_artifact(self, run: str, path: str) -> dict[str, Any]:
        return {"contents": shown(await got(self.client.runs.artifact(run, path)))}

    async def do_open(self, scope: dict[str, str], ttl_sec: Any = None, env: Any = None) -> dict[str, Any]:
        session = await got(self.client.sessions.open(scope["namespace"], scope["id"], scope.get("key"), ttl=ttl_sec, env=env))
        self.sessions[session.id] = session
        return {"session": session.id, "created": session.created}

    async def do_sessions(self, prefix: str) -> dict[str, Any]:
        page = await got(self.client.sessions.list(key_prefix=prefix))
        return {"scopes": sorted(s["scope_key"] for s in page["items"])}

    async def do_close(self, session: str) -> dict[str, Any]:
        await got(self.sessions[session].close())
        return {}

    async def do_close_all(self, prefix: str) -> dict[str, Any]:
        return {"closed": len(await got(self.client.sessions.close_all(prefix)))}

    async def do_shell(self, session: str, cmd: str) -> dict[str, Any]:
        r = await got(self.sessions[session].shell(cmd, separate=True))
        return {"exit_code": r.exit_code, "stdout": shown(r.stdout_bytes), "stderr": shown(r.stderr_bytes), "cwd": r.cwd, "shell": r.shell}

    async def do_write(self, session: str, path: str, contents: Any, overwrite: bool = False) -> dict[str, Any]:
        await got(self.sessions[session].files.write(path, given(contents), overwrite=overwrite))
        return {}

    async def do_read(self, session: str, path: str, offset: int = 0, length: Any = None) -> dict[str, Any]:
        return {"contents": shown(await got(self.sessions[session].files.read(path, offset=offset, limit=length)))}

    async def do_list(self, session: str, path: str = ".", recursive: bool = False) -> dict[str, Any]:
        entries = await got(self.sessions[session].files.list(path, recursive=recursive))
        return {"entries": [{name: e[name] for name in ("path", "type", "size") if name != "size" or e["type"] == "file"} for e in entries]}

    async def do_delete(self, session: str, path: str, recursive: bool = False) -> dict[str, Any]:
        await got(self.sessions[session].files.delete(path, recursive=recursive))
        return {}


async def main(args: list[str]) -> int:
    *flags, path = args
    with open(path, encoding="utf-8") as file:
        scenario = json.load(file)
    if scenario["version"] != 1:
        print(f"version {scenario['version']} is not known", file=sys.stderr)
        return 2
    if "--async" in flags:
        async with AsyncBelljar() as client:
            await Driver(client).play(scenario["steps"])
    else:
        with Belljar() as client:
            await Driver(client).play(scenario["steps"])
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
