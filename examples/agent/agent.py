#!/usr/bin/env python3
"""An agent that writes a program, runs it, reads what went wrong, and mends it.

    python3 agent.py TASK [FILE ...]

gives the model a sandbox with the files in it. What it has written there is in out/ at the end. OPENAI_BASE_URL, OPENAI_API_KEY
and OPENAI_MODEL say which model it is: any that speaks OpenAI's chat completions. BELLJAR_SERVER and BELLJAR_API_KEY say where
the sandbox is; without them a belljar of this program's own is started.
"""

import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

from belljar import Belljar, BelljarError

MOST_TURNS = 20
MOST_TEXT = 4000  # characters of output that the model is shown, from its end

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
    """Asks the model to go on and returns its message."""
    request = urllib.request.Request(
        os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/") + "/chat/completions",
        json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": TOOLS}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["choices"][0]["message"]


class Hands:
    """What the model can do. Everything is answered with text, also what goes wrong: the model is to read it."""

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
        except (ValueError, TypeError) as e:  # it does not keep to the schema
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
    """Lets the model work on a task until it says that it is done, and keeps what it has written. Returns its answer."""
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
    """Brings files home, each under its bare name: where they go is not the model's to say."""
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
