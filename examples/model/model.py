#!/usr/bin/env python3
"""A scripted model, in place of a real one that costs money.

    python3 model.py SCRIPT [SCRIPT ...] -- COMMAND [ARGS ...]

serves the script on a port of this machine while COMMAND runs, and passes its address to COMMAND in OPENAI_BASE_URL and
ANTHROPIC_BASE_URL (and a key for each). It supports OpenAI's chat completions and Anthropic's messages, with tools and
without streaming. It is strict: it refuses requests that a real model would refuse, and stops at a request that differs
from the script's expectations. The exit status is COMMAND's, or 1 after such an error or if turns are left.

A script is a JSON list of turns; several scripts are played one after the other. A turn has these optional keys:

    given   texts that must be in the text added since the last turn (a string or a list)
    tools   names of the tools that must be offered, in any order
    text    the model's answer
    calls   the model's tool calls: a list of {"name": …, "input": {…}}. An input value {"file": NAME} is the text of a file
            next to the script. {"told": PATTERN} is the group of the pattern's last match in all texts that the model received
"""

import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import wire


class Play:
    """The script and its current turn. It answers requests one after the other."""

    def __init__(self, scripts):
        self.turns = [turn for script in scripts for turn in read(pathlib.Path(script))]
        self.next = 0
        self.wrong = None  # the first error
        self.lock = threading.Lock()

    def answer(self, dialect, body):
        """Returns the status and JSON for a request."""
        with self.lock:
            try:
                request = dialect.read(body)
            except (wire.Refused, AttributeError, KeyError, TypeError, ValueError) as e:
                self.fail(f"request {self.next + 1} is refused: {e!r}")
                return 400, dialect.error(str(e))
            if self.wrong is None and self.next == len(self.turns):
                self.fail("it is asked more often than the script has turns")
            if self.wrong is None:
                self.check(self.turns[self.next], request)
            if self.wrong is not None:
                return 400, dialect.error(self.wrong)
            turn = self.turns[self.next]
            calls = [{"name": call["name"], "input": self.recall(call["input"], request)} for call in turn.get("calls", [])]
            if self.wrong is not None:
                return 400, dialect.error(self.wrong)
            self.next += 1
            return 200, dialect.answer(self.next, turn.get("text", ""), calls)

    def recall(self, given, request):
        """Returns an input with each {"told": PATTERN} replaced by its match."""
        said = {}
        for name, value in given.items():
            if isinstance(value, dict) and set(value) == {"told"}:
                found = re.findall(value["told"], request.told)
                if not found:
                    self.fail(f"turn {self.next + 1}: no received text matches {value['told']}")
                value = found[-1] if found else ""
            said[name] = value
        return said

    def check(self, turn, request):
        """Compares a request with the script's expectations."""
        number = self.next + 1
        for text in turn["given"]:
            if text not in request.added:
                self.fail(f"turn {number} expects {text!r} in the text that it received, which is\n{request.added}")
        if "tools" in turn and sorted(turn["tools"]) != sorted(request.tools):
            self.fail(f"turn {number} expects the tools {turn['tools']}, not {request.tools}")
        for call in turn.get("calls", []):
            if call["name"] not in request.tools:
                self.fail(f"turn {number} calls {call['name']}, which is not offered")

    def fail(self, what):
        if self.wrong is None:
            self.wrong = what


def read(script):
    """Reads a script, with the files that it names."""
    turns = json.loads(script.read_text(encoding="utf-8"))
    for turn in turns:
        unknown = set(turn) - {"given", "tools", "text", "calls"}
        if unknown:
            raise SystemExit(f"model: {script}: unknown in a turn: {', '.join(sorted(unknown))}")
        given = turn.get("given", [])
        turn["given"] = [given] if isinstance(given, str) else given
        for call in turn.get("calls", []):
            for name, value in call["input"].items():
                if isinstance(value, dict) and set(value) == {"file"}:
                    call["input"][name] = script.with_name(value["file"]).read_text(encoding="utf-8")
    return turns


class Handler(http.server.BaseHTTPRequestHandler):
    """A client's request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802, as http.server has it
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        dialect = wire.DIALECTS.get(self.path)
        if dialect is None:
            self.reply(404, {"error": {"message": f"there is no {self.path} here"}})
        elif not dialect.allows(self.headers):
            self.reply(401, dialect.error("the key is missing"))
        else:
            self.reply(*self.server.play.answer(dialect, body))

    def reply(self, status, answer):
        raw = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        """Does nothing: standard error belongs to the command."""


def main(args):
    if "--" not in args or args[0] == "--" or args[-1] == "--":
        raise SystemExit("usage: model.py SCRIPT [SCRIPT ...] -- COMMAND [ARGS ...]")
    split = args.index("--")
    play = Play(args[:split])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.play = play
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        environment = dict(
            os.environ,
            OPENAI_BASE_URL=address + "/v1", OPENAI_API_KEY=wire.KEY, OPENAI_MODEL="scripted",
            ANTHROPIC_BASE_URL=address, ANTHROPIC_API_KEY=wire.KEY, ANTHROPIC_MODEL="scripted",
        )
        try:
            status = subprocess.run(args[split + 1:], env=environment).returncode
        except OSError as e:
            raise SystemExit(f"model: {args[split + 1]}: {e.strerror}") from None
        server.shutdown()
    if play.wrong is None and play.next < len(play.turns):
        play.fail(f"the play ends after turn {play.next} of {len(play.turns)}")
    if play.wrong is not None:
        print("model: " + play.wrong, file=sys.stderr)
        return 1
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
