#!/usr/bin/env python3
"""Lets a model analyse data in one persistent interpreter, and try several fits concurrently in copies of its sandbox.

    python3 analysis.py FILE QUESTION [QUESTION ...]

The model has two tools. code executes Python in the session's context: a call can use the definitions of earlier calls. fits
executes several programs concurrently, each in a fork of the session; the session continues as the fork whose program had
the smallest error. Between two questions the session hibernates, as it would while people think: it uses no memory, and the
next call wakes it. Pictures go to out/. OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL select the model, BELLJAR_SERVER
and BELLJAR_API_KEY the server of the sandboxes; without them the program starts a private belljar.
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
    """Requests the model's next message and returns it."""
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
        """Executes code, and returns its results as text. It keeps the pictures unopened: they are untrusted."""
        run = self.session.code(code, timeout=120, replay=True)  # a context that has hibernated without its interpreter executes its earlier code first
        text = run.stdout[-4000:] + (run.value[:4000] + "\n" if run.value else "")
        for result in run.results:
            for kind, suffix in (("image/png", "png"), ("image/svg+xml", "svg")):
                if kind in result.get("data", {}):
                    self.pictures += 1
                    data = result["data"][kind]
                    path = pathlib.Path("out", f"picture-{self.pictures}.{suffix}")
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(base64.b64decode(data) if suffix == "png" else data.encode())
                    text += f"a picture ({kind})\n"
        if run.error:
            text += run.error["traceback"][-4000:]
        if run.context.get("state") == "replaced":
            text += "[the interpreter is new: its variables are gone]\n"
        return text or "done\n"

    def fits(self, **programs):
        """Tries each program in a fork, and continues in the best one. Forks have the files; their interpreters are new."""
        forks = dict(zip(programs, self.session.fork(len(programs))))
        try:
            with ThreadPoolExecutor() as at_once:
                errors = dict(zip(programs, at_once.map(lambda name: error_of(forks[name].code(programs[name], timeout=120)), programs)))
            best = min(errors, key=lambda name: errors[name])
            if errors[best] < math.inf:
                self.session, forks[best] = forks[best], self.session
        finally:
            for session in forks.values():
                session.close()
        return "".join(f"{name}: {error}{' <- kept' if name == best else ''}\n" for name, error in errors.items())


def error_of(run):
    """The error of a program, from the JSON of its last expression; infinite without one."""
    for result in run.results:
        value = result.get("data", {}).get("application/json")
        if result["type"] == "value" and isinstance(value, dict) and isinstance(value.get("error"), (int, float)):
            return value["error"]
    return math.inf


def main(file, *questions):
    data = pathlib.Path(file)
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": f"The file is {data.name}."}]
    with Belljar() if "BELLJAR_SERVER" in os.environ else Belljar.local() as belljar:
        analysis = Analysis(belljar.sessions.create(resources={"memory_mb": 512}))
        try:
            analysis.session.files.write(data.name, data.read_bytes())
            for number, question in enumerate(questions):
                if number > 0:
                    analysis.session.hibernate(force=True)  # a live interpreter would keep it awake
                    print(f"{question} (The session has hibernated.)")
                messages.append({"role": "user", "content": question})
                converse(analysis, messages)
        finally:
            analysis.session.close()


def converse(analysis, messages):
    """Lets the model work until it has an answer."""
    for _ in range(MOST_TURNS):
        message = ask(messages)
        messages.append(message)
        if message.get("content"):
            print(message["content"])
        for call in message.get("tool_calls") or []:
            try:
                tool = {"code": analysis.code, "fits": analysis.fits}[call["function"]["name"]]
                text = tool(**json.loads(call["function"]["arguments"]))
            except BelljarError as e:
                text = f"error: {e}\n"
            except (KeyError, TypeError, ValueError) as e:
                text = f"the call is wrong: {e!r}\n"
            print("".join(f"  {line}\n" for line in text.splitlines()), end="")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not message.get("tool_calls"):
            return
    raise SystemExit(f"analysis: it is not done after {MOST_TURNS} turns")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit("usage: analysis.py FILE QUESTION [QUESTION ...]")
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL"):
        if name not in os.environ:
            raise SystemExit(f"analysis: {name} is not set")
    try:
        main(*sys.argv[1:])
    except urllib.error.HTTPError as e:
        raise SystemExit(f"analysis: the model answers {e.code}: {e.read(1000).decode(errors='replace')}") from None
    except (BelljarError, OSError) as e:
        raise SystemExit(f"analysis: {e}") from None
