#!/usr/bin/env python3
"""Asks a model a question, with the tools of toolbox.py: python3 ask.py QUESTION."""

import json
import os
import sys
import urllib.request

from belljar import Belljar
from toolbox import Toolbox


def complete(messages):
    """Requests the model's next message and returns it."""
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions",
        json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": Toolbox.TOOLS}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["choices"][0]["message"]


def main(question):
    messages = [{"role": "user", "content": question}]
    belljar = Belljar() if "BELLJAR_SERVER" in os.environ else Belljar.local()
    with belljar, belljar.sessions.create(ttl=900) as session:
        toolbox = Toolbox(session)
        for _ in range(20):
            message = complete(messages)
            messages.append(message)
            if not message.get("tool_calls"):
                print(message["content"])
                return
            for call in message["tool_calls"]:
                result = toolbox.call(call["function"]["name"], call["function"]["arguments"])
                print(f"{call['function']['name']}: {' '.join(result.split())}")
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    raise SystemExit("ask: it is not done after 20 turns")


if __name__ == "__main__":
    main(*sys.argv[1:])
