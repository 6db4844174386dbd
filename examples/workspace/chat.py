"""A chat program for the workspace API: JSON lines in and out, a hosted model behind it, and a tool that runs shell commands.

    chat.py URL --model NAME

It has no key: Belljar adds the header x-api-key to its requests outside of the sandbox.
"""

import json
import signal
import subprocess
import sys
import time
import urllib.request

URL, MODEL = sys.argv[1], sys.argv[sys.argv.index("--model") + 1]
BASH = {
    "name": "Bash",
    "description": "Runs a command of a shell and returns what it prints.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


def say(**message):
    print(json.dumps(message), flush=True)


def model(messages):
    body = json.dumps({"model": MODEL, "max_tokens": 1024, "tools": [BASH], "messages": messages}).encode()
    headers = {"Content-Type": "application/json", "anthropic-version": "2023-06-01"}
    with urllib.request.urlopen(urllib.request.Request(URL, body, headers), timeout=120) as answer:
        return {"role": "assistant", "content": json.load(answer)["content"]}


def allowed(call):
    """Asks the user, and waits for the answer."""
    request = {"subtype": "can_use_tool", "tool_name": call["name"], "input": call["input"]}
    say(type="control_request", request_id=call["id"], request=request)
    for line in sys.stdin:
        answer = json.loads(line).get("response", {})
        if answer.get("request_id") == call["id"]:
            return answer["response"]["behavior"] == "allow"
    sys.exit()


def use(call):
    """Runs a command of the model, if the user allows it."""
    text = "The user does not allow it."
    if allowed(call):
        say(type="system", subtype="running", command=call["input"]["command"])
        done = subprocess.run(["sh", "-c", call["input"]["command"]], stdin=subprocess.DEVNULL, stdout=-1, stderr=-2, text=True, check=False)
        if done.returncode in (-signal.SIGINT, 128 + signal.SIGINT):
            time.sleep(10)  # an interrupt also reaches this program, and ends the sleep
        text = done.stdout or f"exit code {done.returncode}"
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text}


def turn(messages):
    """Continues until the model requests nothing more."""
    while True:
        answer = model(messages)
        messages.append(answer)
        say(type="assistant", message=answer)
        calls = [block for block in answer["content"] if block["type"] == "tool_use"]
        if not calls:
            return
        messages.append({"role": "user", "content": [use(call) for call in calls]})
        say(type="user", message=messages[-1])


def main():
    say(type="system", subtype="init", model=MODEL)
    history = []
    while True:
        try:
            for line in sys.stdin:
                message = json.loads(line)
                if message["type"] == "user":
                    messages = [*history, message["message"]]
                    turn(messages)
                    history = messages
                    say(type="result", subtype="success")
            return
        except KeyboardInterrupt:  # drop an interrupted turn, so that the model's history stays complete
            say(type="result", subtype="interrupted")
        except OSError as error:
            say(type="result", subtype="error", message=str(error))


main()
