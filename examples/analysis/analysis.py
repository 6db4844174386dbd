#!/usr/bin/env python3
"""Has a model analyse data in one interpreter that remembers, and try several fits at once in copies of its sandbox.

    python3 analysis.py FILE QUESTION

The model has two tools. code executes Python in the session's context: what one call defines, the next one uses. fits executes several
programs at once, each in a fork of the session; the session goes on as the fork whose program had the smallest error, and hibernates
until the model goes on. Pictures go to out/. OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL say which model it is, BELLJAR_SERVER and BELLJAR_API_KEY where the sandboxes
are; without them a belljar of this program's own is started.
"""

import base64
import json
import math
import os
import pathlib
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from belljar import Belljar, BelljarError

MOST_TURNS = 30
INSTRUCTIONS = """You analyse a file of data with Python, step by step, in one interpreter. To compare models, save what they need to files,
and give fits one program for each: its last expression is a dict with its error. The best one's interpreter is then yours."""
TOOLS = [
    {"type": "function", "function": {
        "name": "code", "description": "Executes Python; variables stay. Returns what it prints, and the value of the last expression.",
        "parameters": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
    }},
    {"type": "function", "function": {
        "name": "fits", "description": "Executes programs at once, each in a copy of the sandbox with its files; keeps the one of the smallest error.",
        "parameters": {"type": "object", "additionalProperties": {"type": "string"}},
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


class Analysis:
    def __init__(self, session):
        self.session, self.pictures = session, 0

    def code(self, code):
        """Executes code, and returns what it has shown as text. Its pictures are a stranger's: they are kept as they are, and not looked at."""
        run = self.session.code(code, timeout=120, replay=True)
        told = run.stdout[-4000:] + (run.value[:4000] + "\n" if run.value else "")
        for result in run.results:
            for kind, suffix in (("image/png", "png"), ("image/svg+xml", "svg")):
                if kind in result.get("data", {}):
                    self.pictures += 1
                    data = result["data"][kind]
                    path = pathlib.Path("out", f"picture-{self.pictures}.{suffix}")
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(base64.b64decode(data) if suffix == "png" else data.encode())
                    told += f"a picture ({kind})\n"
        if run.error:
            told += run.error["traceback"][-4000:]
        if run.context.get("state") == "replaced":
            told += "[the interpreter is new: its variables are gone]\n"
        if run.context.get("replayed"):  # where processes are not saved, as on runtime native
            told += f"[the interpreter is new: it executed its earlier code again, {run.context['replayed']} piece]\n"
        return told or "done\n"

    def fits(self, **programs):
        """Tries each program in a fork, and goes on in the best one. Forks have the files; their interpreters are new."""
        forks = dict(zip(programs, self.session.fork(len(programs))))
        try:
            with ThreadPoolExecutor() as at_once:
                errors = dict(zip(programs, at_once.map(lambda name: error_of(forks[name].code(programs[name], timeout=120)), programs)))
            best = min(errors, key=lambda name: errors[name])
            if errors[best] < math.inf:
                self.session, forks[best] = forks[best], self.session
                self.session.hibernate(force=True)
        finally:
            for session in forks.values():
                session.close()
        return "".join(f"{name}: {error}{' <- kept' if name == best else ''}\n" for name, error in errors.items())


def error_of(run):
    """The error that a program found, from the JSON of its last expression; infinite without one."""
    for result in run.results:
        value = result.get("data", {}).get("application/json")
        if result["type"] == "value" and isinstance(value, dict) and isinstance(value.get("error"), (int, float)):
            return value["error"]
    return math.inf


def main(file, question):
    data = pathlib.Path(file)
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": f"{question}\n\nThe file is {data.name}."}]
    with Belljar() if "BELLJAR_SERVER" in os.environ else Belljar.local() as belljar:
        analysis = Analysis(belljar.sessions.create(resources={"memory_mb": 512}))
        try:
            analysis.session.files.write(data.name, data.read_bytes())
            for _ in range(MOST_TURNS):
                message = ask(messages)
                messages.append(message)
                if message.get("content"):
                    print(message["content"])
                for call in message.get("tool_calls") or []:
                    try:
                        tool = {"code": analysis.code, "fits": analysis.fits}[call["function"]["name"]]
                        told = tool(**json.loads(call["function"]["arguments"]))
                    except BelljarError as e:
                        told = f"error: {e}\n"
                    except (KeyError, TypeError, ValueError) as e:
                        told = f"the call is wrong: {e!r}\n"
                    print("".join(f"  {line}\n" for line in told.splitlines()), end="")
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": told})
                if not message.get("tool_calls"):
                    return
        finally:
            analysis.session.close()
    raise SystemExit(f"analysis: it is not done after {MOST_TURNS} turns")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: analysis.py FILE QUESTION")
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL"):
        if name not in os.environ:
            raise SystemExit(f"analysis: {name} is not set")
    try:
        main(*sys.argv[1:])
    except urllib.error.HTTPError as e:
        raise SystemExit(f"analysis: the model answers {e.code}: {e.read(1000).decode(errors='replace')}") from None
    except (BelljarError, OSError) as e:
        raise SystemExit(f"analysis: {e}") from None
