#!/usr/bin/python3
"""Follow a run by WebSocket: a client that shares no code with the server (Debian's python3-websockets).

It prints every frame unchanged, one on each line, and a line of its own at the end of each connection:

    {"client": "closed", "code": 1000, "reason": "end of log"}
    {"client": "refused", "status": 404}
    {"client": "lost", "error": "..."}

After a reconnect it does not repeat frames; a gap in seq is an error. Exit status: 0 after a clean end (close code
1000), 3 if the server refused the connection, 4 if it closed it for a reason that is not worth a reconnect, 5 if
frames are missing, 6 after the last retry.
"""

import argparse
import asyncio
import json
import os
import random
import sys
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import websockets

# Close codes after which clients reconnect: shutdown, restart, overload, a failure, no close frame at all.
AGAIN = {1001, 1006, 1011, 1012, 1013}
# Notes borrow a seq: they are not part of the log.
NOTES = {"resume", "stdin_closed"}


class Gap(Exception):
    """Frames are missing."""


def say(line):
    print(json.dumps(line), flush=True)


def with_from(url, seq):
    """Returns url with from_seq=seq, and without any other parameter for the beginning."""
    parts = urlsplit(url)
    query = [(k, v) for k, v in parse_qsl(parts.query, keep_blank_values=True) if k not in ("from_seq", "since_seq")]
    if seq is not None:
        query.append(("from_seq", str(seq)))
    return urlunsplit(parts._replace(query=urlencode(query)))


class Follower:
    def __init__(self, args):
        self.args = args
        self.next = None  # seq of the next frame; None before the first one
        self.ended = False
        self.stdin = None  # the task that sends the program's input

    def take(self, raw):
        """Print a frame unless it was printed before; returns its event."""
        if not isinstance(raw, str) or len(raw.encode()) > 64 << 10:
            raise Gap("message is no text of at most 64 KB")
        frame = json.loads(raw)
        event = frame.get("event")
        if event in NOTES:
            if event == "resume":
                self.next = frame["data"]["delivered_from_seq"]
            print(raw, flush=True)
            return event
        seq = frame["seq"]
        if self.next is not None and seq < self.next:
            return event
        if self.next is not None and seq > self.next:
            raise Gap(f"frame {seq} follows {self.next - 1}")
        self.next = seq + 1
        print(raw, flush=True)
        return event

    async def feed(self, ws):
        """Send our stdin, line by line, then the end of input."""
        loop = asyncio.get_running_loop()
        while True:
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                break
            await ws.send(json.dumps({"type": "stdin", "encoding": "utf8", "data": line}))
        await ws.send(json.dumps({"type": "stdin_close"}))

    async def once(self):
        """Follow one connection; returns its close code."""
        start = self.next if self.next is not None else self.args.from_seq
        headers = [tuple(part.strip() for part in h.split(":", 1)) for h in self.args.header]
        url = with_from(self.args.url, start) if start is not None else self.args.url
        async with websockets.connect(url, extra_headers=headers, max_size=64 << 10, compression=None, open_timeout=60, ping_timeout=60) as ws:
            if self.args.stdin and self.stdin is None:
                self.stdin = asyncio.ensure_future(self.feed(ws))
            seen = 0
            try:
                async for raw in ws:
                    if self.take(raw) == "end":
                        self.ended = True
                    seen += 1
                    if self.args.drop_after and seen >= self.args.drop_after and not self.ended:
                        ws.transport.abort()  # as if the network broke
            except websockets.ConnectionClosedError:
                pass  # the caller checks the code
            say({"client": "closed", "code": ws.close_code, "reason": ws.close_reason})
            return ws.close_code

    async def follow(self):
        pause = self.args.backoff
        for _ in range(self.args.retries + 1):
            before = self.next
            try:
                code = await asyncio.wait_for(self.once(), self.args.timeout)
            except websockets.InvalidStatusCode as refused:
                say({"client": "refused", "status": refused.status_code})
                if refused.status_code not in (429, 503):
                    return 3
                code = 1013
            except (OSError, websockets.InvalidHandshake, asyncio.TimeoutError) as lost:
                say({"client": "lost", "error": str(lost) or type(lost).__name__})
                code = 1006
            if code == 1000:
                return 0
            if code not in AGAIN:
                return 4
            if self.next != before:
                pause = self.args.backoff
            await asyncio.sleep(pause * random.uniform(0.9, 1.1))
            pause = min(pause * 2, 30)
        return 6

    async def run(self):
        try:
            return await self.follow()
        except Gap as gap:
            say({"client": "gap", "error": str(gap)})
            return 5
        finally:
            if self.stdin is not None:
                self.stdin.cancel()


def main():
    parser = argparse.ArgumentParser(description="follow a run by WebSocket")
    parser.add_argument("--url", required=True, help="ws://… of the run's stream")
    parser.add_argument("--header", action="append", default=[], metavar="NAME: VALUE", help="of the handshake; may be given again")
    parser.add_argument("--from-seq", metavar="N", help="first frame, or tail; without it as the server says")
    parser.add_argument("--stdin", action="store_true", help="send our standard input to the program, and its end")
    parser.add_argument("--retries", type=int, default=8, help="reconnects, at most")
    parser.add_argument("--backoff", type=float, default=1.0, metavar="SECONDS", help="before the first reconnect; doubles up to 30")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="of one connection")
    parser.add_argument("--drop-after", type=int, default=0, metavar="N", help="cut every connection after N messages, to test reconnects")
    status = asyncio.get_event_loop_policy().new_event_loop().run_until_complete(Follower(parser.parse_args()).run())
    sys.stdout.flush()
    os._exit(status)  # a thread may still block on our stdin


if __name__ == "__main__":
    main()
