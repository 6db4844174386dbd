"""Ten thousand lines with a forced reconnect every 500, on a scripted server and on a real one."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import KEY, LONG, Server, each, got

LINES = 10_000
PIECE = 500


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    from belljar import _retry

    monkeypatch.setattr(_retry.Passing, "pause", lambda self, tries: 0.0)


def event(seq: int) -> bytes:
    frame: dict[str, Any] = {"type": "stdout", "encoding": "utf8", "data": f"line {seq}\n", "seq": seq}
    if seq > LINES:
        frame = {"type": "event", "event": "end", "data": {"exit_code": 0}, "seq": seq}
    return f"id: {seq}\nevent: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode()


async def test_made_up(connect: Any, stage: Any) -> None:
    def act(a: Any) -> None:
        found = re.search(rb"since_seq=(\d+)", a.request())
        since = int(found.group(1)) if found else 0
        a.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 1000\n\n")
        events = b"".join(event(seq) for seq in range(since + 1, min(since + PIECE, LINES + 1) + 1))
        a.say(events, event(since + PIECE + 1)[: since % 97])  # cut at a different place each time
        if since + PIECE > LINES:
            a.gone()

    s = stage(forever=act)
    frames = [f async for f in each(connect(s.url).runs.logs("r"))]
    assert [f.seq for f in frames] == list(range(1, LINES + 2)) and frames[-1].last
    assert b"".join(f.data for f in frames) == b"".join(b"line %d\n" % i for i in range(1, LINES + 1))
    assert s.connections == LINES // PIECE + 1


class Cutter:
    """A proxy that cuts every connection after a number of lines, in the middle of a frame."""

    def __init__(self, path: str) -> None:
        self.path, self.cuts = path, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open: list[socket.socket] = []
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.path)
            self.open += [near, far]
            for source, to, bound in ((near, far, 0), (far, near, PIECE)):
                self.threads.append(threading.Thread(target=self.carry, args=(source, to, bound), daemon=True))
                self.threads[-1].start()

    def carry(self, source: socket.socket, to: socket.socket, bound: int) -> None:
        buf, lines = b"", 0
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                buf += data
                if not bound or b"text/event-stream" not in buf and not lines and b"\n\n" not in buf:
                    to.sendall(buf)
                    buf = b""
                    continue
                while b"\n\n" in buf:
                    event, _, buf = buf.partition(b"\n\n")
                    to.sendall(event + b"\n\n")
                    lines += event.count(b"\\n")  # newlines are escaped in JSON
                    if lines >= bound and b'"event":"end"' not in event:
                        self.cuts += 1
                        to.sendall(buf[:10])
                        return
        except OSError:
            pass
        finally:
            for sock in (source, to):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.threads[0].join(LONG)
        for sock in self.open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(LONG)
        for sock in self.open:
            sock.close()


@pytest.fixture
def cutter(server: Server) -> Iterator[Cutter]:
    c = Cutter(server.socket)
    yield c
    c.close()


async def test_real(connect: Any, cutter: Cutter) -> None:
    client = connect(cutter.url, api_key=KEY, patience=LONG)
    code = f"import sys, time\nfor i in range(1, {LINES} + 1):\n  sys.stdout.write('line %d\\n' % i)\n  if i % {PIECE} == 0: sys.stdout.flush(); time.sleep(0.02)\n"
    run = await got(client.runs.start(code=code, language="python"))
    seqs, text = [], b""
    async for frame in each(run.logs()):
        seqs.append(frame.seq)
        text += frame.data
    assert text == b"".join(b"line %d\n" % i for i in range(1, LINES + 1))
    assert seqs == list(range(1, len(seqs) + 1))
    assert cutter.cuts >= 2  # usually 19; on a busy machine a frame has more than 500 lines, though never more than 45 KiB
