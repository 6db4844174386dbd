#!/usr/bin/python3
"""Use a terminal by WebSocket as a browser does: a client that shares no code with the server (Debian's python3-websockets).

    terminal.py URL KEY SESSION

It opens a terminal, works in a shell, in python and in a full-screen program, pastes a megabyte, leaves, comes back,
and prints its findings as one line of JSON. Exit status 1 with a traceback if anything is wrong.
"""

import asyncio
import base64
import json
import sys
import time
import zlib

import websockets

PATIENCE = 100


class Terminal:
    """One connection. seen has all output as bytes."""

    def __init__(self, url, key):
        self.url, self.key = url, key
        self.seen = b""
        self.greeting = None
        self.history = None
        self.exit = None
        self.pongs = 0
        self.code = None

    async def __aenter__(self):
        self.ws = await websockets.connect(
            self.url, extra_headers={"X-API-KEY": self.key}, max_size=4 << 20, compression=None, open_timeout=PATIENCE, ping_timeout=PATIENCE
        )
        self.changed = asyncio.Condition()
        self.reader = asyncio.create_task(self.read())
        await self.until(lambda: self.greeting or self.code)
        return self

    async def __aexit__(self, *_):
        await self.ws.close()
        await self.reader

    async def read(self):
        try:
            async for raw in self.ws:
                assert isinstance(raw, str), "a binary message"
                m = json.loads(raw)
                async with self.changed:
                    self.take(m)
                    self.changed.notify_all()
        except websockets.ConnectionClosed:
            pass
        async with self.changed:
            self.code = self.ws.close_code
            self.changed.notify_all()

    def take(self, m):
        if m["type"] in ("history", "output"):
            assert "\ufffd" not in m["data"], "a character was harmed"
            data = base64.b64decode(m["data"]) if m.get("encoding") == "base64" else m["data"].encode()
            if m["type"] == "history":
                assert self.history is None and not self.seen, "history comes first, and once"
                self.history = data
            self.seen += data
        elif m["type"] == "session":
            self.greeting = m
        elif m["type"] == "exit":
            self.exit = m["exit_code"]
        elif m["type"] == "pong":
            self.pongs += 1
        else:
            self.greeting = self.greeting or m

    async def until(self, holds):
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(holds), PATIENCE)

    async def printed(self, text):
        """Wait for text, and drop everything up to it."""
        text = text.encode() if isinstance(text, str) else text
        try:
            await self.until(lambda: text in self.seen or self.code)
        except asyncio.TimeoutError:
            raise AssertionError(f"never {text!r}, but {self.seen[-2000:]!r}") from None
        assert text in self.seen, f"closed with {self.code} instead of {text!r}, behind {self.seen[-2000:]!r}"
        self.seen = self.seen.partition(text)[2]

    async def send(self, **m):
        await self.ws.send(json.dumps(m))

    async def type(self, text):
        await self.send(type="input", data=text)


async def shell(t):
    await t.type("stty size; echo o''k-$((6*7))\r")
    await t.printed("30 100\r\n")
    await t.printed("ok-42")
    await t.type("echo wait''ing; read -r _; stty size\r")
    await t.printed("waiting\r\n")  # before its prompt, bash reads the size and sets it again: a change in between is lost
    await t.send(type="resize", cols=132, rows=43)
    await t.type("\r")
    await t.printed("43 132\r\n")
    await t.type("echo rea''dy; cat\r")
    await t.printed("ready\r\n")  # the terminal's echo of the command must not look like it
    for piece in ("gr", "üß", "e 🐌\r"):
        await t.type(piece)
    await t.printed("grüße 🐌\r\ngrüße 🐌\r\n")
    await t.type("\x04")
    await t.send(type="ping")
    await t.until(lambda: t.pongs)


async def python(t):
    await t.type("python3 -q\r")
    await t.printed(">>> ")
    await t.type("import sys; print(sys.stdin.isatty(), len('héé'))\r")
    await t.printed("True 3")
    await t.printed(">>> ")
    # Interrupt only a running program: python drops a signal that arrives while it begins to read its input.
    await t.type("print('spin' + 'ning'); all(n == 0 for n in iter(int, 1))\r")
    await t.printed("spinning")
    await t.type("\x03")
    await t.printed("KeyboardInterrupt")
    await t.printed(">>> ")
    await t.type("exit()\r")


async def pager(t):
    await t.type("seq 1 5000 >list; less list; echo b''ack\r")
    await t.printed("1\r\n2\r\n")
    await t.type("G")
    await t.printed("5000")
    await t.type("q")
    await t.printed("back")


async def paste(t):
    text = "".join(f"{n:07d}\n" for n in range(131072))  # a megabyte
    await t.type("stty -echo; cksum_of() { python3 -c 'import sys,zlib; print(\"sum\", zlib.crc32(sys.stdin.buffer.read(1048576)))'; }; echo rea''dy; cksum_of\r")
    await t.printed("ready")
    begun = time.monotonic()
    await t.type(text)
    await t.printed(f"sum {zlib.crc32(text.encode())}")
    took = time.monotonic() - begun
    await t.type("stty echo\r")
    return took


async def main(url, key, session):
    found = {}
    base = url + "/api/v1/sandbox"
    async with Terminal(f"{base}/sessions/{session}/terminals?cols=100&rows=30&session_name=py&command=bash&command=--norc", key) as t:
        assert t.greeting["type"] == "session" and not t.greeting["resumed"], t.greeting
        await shell(t)
        await python(t)
        await pager(t)
        found["paste_sec"] = round(await paste(t), 3)
        await t.type("marker=12''34\r")
        await t.type("echo mark$marker\r")
        await t.printed("mark1234")
        token = t.greeting["session_id"]
    async with Terminal(f"{base}/terminals?session_id={token}", key) as t:
        assert t.greeting["resumed"], t.greeting
        await t.until(lambda: t.history)
        assert b"mark1234" in t.history, t.history[-500:]
        await t.type("echo back$marker; exit 9\r")
        await t.printed("back1234")
        await t.until(lambda: t.code)
        assert (t.exit, t.code) == (9, 1000), (t.exit, t.code)
    async with Terminal(f"{base}/terminals?session_id={token[:-2]}", key) as t:
        assert t.greeting["type"] == "session_not_found", t.greeting
        await t.until(lambda: t.code)
        assert t.code == 4004, t.code
    async with Terminal(f"{base}/terminals?session_id={token}", "nobody's key") as t:
        await t.until(lambda: t.code)
        assert t.code == 4001, t.code
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
