"""Measures the overhead of this package: ``python3 bench/bench.py [--count N]``, with BELLJAR_BIN or ../../bin/belljar.

- from a fresh interpreter to the first result in local mode: import, start of belljar, session, ``echo hi``, and exit;
- a call, compared with the same bytes over one bare http.client connection, both in turns on one server.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
os.environ.setdefault("BELLJAR_BIN", str(ROOT.parent.parent / "bin" / "belljar"))

FIRST = """
import time
begun = time.perf_counter()
from belljar import SandboxClient
client = SandboxClient(mode="local")
client.get_or_create_session("u", "t")
assert client.execute("echo hi")["stdout"] == "hi\\n"
first = time.perf_counter()
client.close()
print(first - begun, time.perf_counter() - first)
"""


def shown(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    print(f"{name:44} p50 {statistics.median(ordered) * 1e3:8.2f} ms   p95 {ordered[int(len(ordered) * 0.95)] * 1e3:8.2f} ms   n {len(ordered)}")


def first_results(count: int) -> None:
    inside, whole, leaving, nothing, ready = [], [], [], [], []
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for _ in range(count):
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", FIRST], env=env, capture_output=True, text=True, check=True)
        whole.append(time.perf_counter() - begun)
        first, left = map(float, done.stdout.split())
        inside.append(first)
        leaving.append(left)
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        nothing.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        server = subprocess.Popen([os.environ["BELLJAR_BIN"], "serve", "--private"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert server.stdout is not None and server.stdout.readline()
        ready.append(time.perf_counter() - begun)
        server.communicate()
    shown("local mode: import to first result", inside)
    shown("local mode: leaving", leaving)
    shown("local mode: the whole program", whole)
    shown("to compare: python3 -c pass", nothing)
    shown("to compare: belljar serve --private, ready", ready)


class Bare(http.client.HTTPConnection):
    """An http.client connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("belljar.local")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def overhead(count: int) -> None:
    from belljar import AsyncBelljar, Belljar

    with Belljar.local() as belljar:
        session = belljar.sessions.create()
        assert belljar._transport.local is not None
        told = belljar._transport.local.ready()
        bare = Bare(told["socket"])
        spec = {"spec_version": "1.1", "session_id": session.id, "command": ["true"]}

        def raw(method: str, target: str, body: object = None) -> object:
            headers = {"X-API-KEY": told["api_key"], "Content-Type": "application/json", "Accept": "application/json"}
            if method == "POST":
                headers["Idempotency-Key"] = os.urandom(16).hex()
            bare.request(method, "/api/v1/sandbox" + target, None if body is None else json.dumps(body), headers)
            return json.loads(bare.getresponse().read())

        async def measure() -> None:
            async with AsyncBelljar("unix:" + told["socket"], api_key=told["api_key"]) as other:
                path = "/sessions/" + session.id
                cases = {
                    "get a session": (lambda: raw("GET", path), lambda: belljar.sessions.get(session.id), lambda: other.sessions.get(session.id)),
                    "run true in a session": (
                        lambda: raw("POST", "/runs?wait=30.000", spec),
                        lambda: session.run(["true"]),
                        lambda: other.runs.run(["true"], session=session.id),
                    ),
                }
                for name, (one, two, three) in cases.items():
                    times: list[list[float]] = [[], [], []]
                    for i in range(count + 20):
                        for kind, call in enumerate((one, two, three)):  # in turns, so that all run under the same load
                            begun = time.perf_counter()
                            result = call()
                            if kind == 2:
                                await result  # type: ignore[misc]
                            if i >= 20:
                                times[kind].append(time.perf_counter() - begun)
                    for kind, label in enumerate(("http.client", "Belljar", "AsyncBelljar")):
                        shown(f"{name}: {label}", times[kind])
                    plain = statistics.median(times[0])
                    print(f"{'':44} more: {(statistics.median(times[1]) - plain) * 1e3:.2f} ms sync, {(statistics.median(times[2]) - plain) * 1e3:.2f} ms async")

        asyncio.run(measure())
        bare.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="calls of each kind; a tenth of that many programs are started")
    options = parser.parse_args()
    first_results(max(options.count // 10, 5))
    overhead(options.count)
