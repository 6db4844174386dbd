#!/usr/bin/env python3
"""Asks a model about a data file, and downloads the pictures that it draws.

    python3 analyse.py FILE QUESTION

The model has one tool, python: every call is a separate run in a new sandbox that contains only the file. Valid pictures of a
run are downloaded to out/. OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL select the model, BELLJAR_SERVER and
BELLJAR_API_KEY the server of the sandboxes; without them the program starts a private belljar.
"""

import json
import os
import pathlib
import struct
import sys
import urllib.error
import urllib.request

from belljar import Belljar, BelljarError

MOST_TURNS = 12
LARGEST = 8 << 20  # bytes of a picture
INSTRUCTIONS = """You answer questions about a file of data. Look at it with Python, in the folder in which it lies. If a picture helps,
save it there as a PNG file. Then answer in one or two sentences."""
TOOLS = [{"type": "function", "function": {
    "name": "python",
    "description": "Runs a Python program in a new sandbox that holds the data, and returns what it prints and which pictures it leaves.",
    "parameters": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
}}]


def ask(messages):
    """Requests the model's next message and returns it."""
    request = urllib.request.Request(
        os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/") + "/chat/completions",
        json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": TOOLS}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["choices"][0]["message"]


def size_of(image):
    """Returns width and height of a PNG; None for anything else. The bytes are untrusted."""
    if len(image) < 33 or image[:8] != b"\x89PNG\r\n\x1a\n" or image[12:16] != b"IHDR":
        return None
    return struct.unpack(">II", image[16:24])


def run(belljar, data, arguments):
    """Runs the model's program, and reports the outcome to the model and on standard output."""
    try:
        code = json.loads(arguments)["code"]
        done = belljar.run(
            code=code, language="python", files={data.name: data.read_bytes()}, capture=["*.png"], timeout=60,
            resources={"memory_mb": 512})
    except BelljarError as e:
        return f"error: {e}"
    except (ValueError, TypeError, KeyError) as e:
        return f"the arguments are wrong: {e!r}"
    text = done.stdout[-4000:] + done.stderr[-4000:]
    if not done.ok:
        text += f"[{done.message}]\n"
    for artifact in done.artifacts():
        name = pathlib.PurePosixPath(artifact["path"]).name
        image = done.artifact(artifact["path"]) if 0 < artifact["size"] <= LARGEST else b""
        size = size_of(image)
        if size is None:
            text += f"{name} is no picture that can be shown\n"
            continue
        home = pathlib.Path("out", name)
        home.parent.mkdir(exist_ok=True)
        home.write_bytes(image)
        text += f"{name} (image/png, {size[0]} x {size[1]}, {len(image)} bytes)\n"
    for line in text.splitlines():
        print("  " + line)
    return text or "it printed nothing"


def main(file, question):
    data = pathlib.Path(file)
    with open(data, encoding="utf-8", errors="replace") as lines:
        first = lines.readline(500).strip()
    messages = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": f"{question}\n\nThe file is {data.name}, its first line: {first}"},
    ]
    with Belljar() if "BELLJAR_SERVER" in os.environ else Belljar.local() as belljar:
        for _ in range(MOST_TURNS):
            message = ask(messages)
            messages.append(message)
            if message.get("content"):
                print(message["content"])
            calls = message.get("tool_calls") or []
            if not calls:
                return
            for call in calls:
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": run(belljar, data, call["function"]["arguments"])})
    raise SystemExit(f"analyse: it is not done after {MOST_TURNS} turns")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: analyse.py FILE QUESTION")
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL"):
        if name not in os.environ:
            raise SystemExit(f"analyse: {name} is not set")
    try:
        main(*sys.argv[1:])
    except urllib.error.HTTPError as e:
        raise SystemExit(f"analyse: the model answers {e.code}: {e.read(1000).decode(errors='replace')}") from None
    except (BelljarError, OSError) as e:
        raise SystemExit(f"analyse: {e}") from None
