#!/usr/bin/env python3
"""An agent that writes a program, runs it, reads the errors, and fixes it.

    python3 agent.py TASK [FILE ...]

gives the model a sandbox with the files. The files that it writes there are in out/ at the end. OPENAI_BASE_URL,
OPENAI_API_KEY and OPENAI_MODEL select the model: any with OpenAI's chat completions. BELLJAR_SERVER and BELLJAR_API_KEY
select the server of the sandbox; without them the program starts a private belljar.
"""

import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

from belljar import Belljar, BelljarError

MOST_TURNS = 20
MOST_TEXT = 4000  # characters of output that the model gets, from its end

INSTRUCTIONS = """You solve a task by writing a program and running it in a sandbox, which has python3 and no network.
Run what you write, and mend it until it works. Then answer in one sentence."""

TOOLS = [
    {"type": "function", "function": {
        "name": "write_file",
        "description": "Writes a file into the sandbox, in place of one that is there.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "contents": {"type": "string"}},
            "required": ["path", "contents"],
            "additionalProperties": False,
        },
    }},
    {"type": "function", "function": {
        "name": "run",
        "description": "Runs a line of shell in the sandbox and returns what it prints and its exit code. It may take a minute.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
            "additionalProperties": False,
        },
    }},
]


def ask(messages):
    """Requests the model's next message and returns it."""
    request = urllib.request.Request(
        os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/") + "/chat/completions",
        json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": TOOLS}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["choices"][0]["message"]


class Hands:
    """The model's tools. Every call returns text, also for an error: the model must read it."""

    def __init__(self, session):
        self.session = session
        self.written = set()

    def do(self, name, arguments):
        try:
            given = json.loads(arguments)
            if name == "write_file":
                return self.write_file(**given)
            if name == "run":
                return self.run(**given)
            return f"there is no tool {name}"
        except BelljarError as e:
            return f"error: {e}"
        except (ValueError, TypeError) as e:  # the arguments do not match the schema
            return f"the arguments of {name} are wrong: {e}"

    def write_file(self, path, contents):
        print("write", path)
        self.session.files.write(path, contents, overwrite=True)
        self.written.add(path)
        return "written"

    def run(self, command):
        print("run", command)
        done = self.session.run(["sh", "-c", command], timeout=60)
        shown = done.stdout[-MOST_TEXT:] + done.stderr[-MOST_TEXT:]
        if not done.ok:
            shown += f"[{done.message}]\n"
        for line in shown.splitlines():
            print("  " + line)
        return shown or "[it printed nothing]"


def solve(session, task):
    """Lets the model work on a task until it reports that it is done, and keeps its files. Returns its answer."""
    hands = Hands(session)
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": task}]
    for _ in range(MOST_TURNS):
        message = ask(messages)
        messages.append(message)
        calls = message.get("tool_calls") or []
        if not calls:
            keep(session, hands.written)
            return message["content"]
        for call in calls:
            result = hands.do(call["function"]["name"], call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    raise SystemExit(f"agent: it is not done after {MOST_TURNS} turns")


def keep(session, paths):
    """Downloads files, each under its bare name: the model must not choose their folder."""
    for path in sorted(paths):
        if session.files.exists(path):
            os.makedirs("out", exist_ok=True)
            session.files.download(path, os.path.join("out", pathlib.PurePosixPath(path).name))


def main(task, *files):
    belljar = Belljar() if "BELLJAR_SERVER" in os.environ else Belljar.local()
    with belljar, belljar.sessions.create(ttl=900) as session:
        for file in files:
            session.files.upload(file, os.path.basename(file))
        print(solve(session, task))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("usage: agent.py TASK [FILE ...]")
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL"):
        if name not in os.environ:
            raise SystemExit(f"agent: {name} is not set")
    sys.stdout.reconfigure(line_buffering=True)
    try:
        main(*sys.argv[1:])
    except urllib.error.HTTPError as e:
        raise SystemExit(f"agent: the model answers {e.code}: {e.read(1000).decode(errors='replace')}") from None
    except (BelljarError, OSError) as e:
        raise SystemExit(f"agent: {e}") from None
