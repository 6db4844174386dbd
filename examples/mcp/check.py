#!/usr/bin/env python3
"""Acts like an MCP host with a configuration: starts or calls each server in it, and lists its tools.

    python3 check.py CONFIG [CONFIG ...]

It is a small MCP client, for standard input and output and for streamable HTTP, and needs only Python.
"""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

VERSION = "2025-06-18"


class Stdio:
    """A server that is a process."""

    def __init__(self, entry):
        self.process = subprocess.Popen(
            [entry["command"], *entry.get("args", [])], env={**os.environ, **entry.get("env", {})},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def send(self, message):
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise OSError(f"the server has ended, with status {self.process.wait()}") from None
        if "id" not in message:
            return None
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == message["id"]:
                return answer
        raise OSError(f"the server has ended, with status {self.process.wait()}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


class HTTP:
    """A server at an address."""

    def __init__(self, entry):
        self.url = entry["url"]
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **entry.get("headers", {})}

    def send(self, message):
        request = urllib.request.Request(self.url, json.dumps(message).encode(), self.headers, method="POST")
        with urllib.request.urlopen(request, timeout=120) as response:
            if response.headers.get("Mcp-Session-Id"):
                self.headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
                self.headers["MCP-Protocol-Version"] = VERSION
            if "id" not in message:
                return None
            if response.headers.get_content_type() == "application/json":
                return json.load(response)
            for line in response:  # of an event stream; each event here is one line
                if line.startswith(b"data:") and line[5:].strip():
                    answer = json.loads(line[5:])
                    if answer.get("id") == message["id"]:
                        return answer
        raise OSError("the server has not answered")

    def close(self):
        urllib.request.urlopen(urllib.request.Request(self.url, headers=self.headers, method="DELETE"), timeout=60).close()


def servers(path):
    """Returns the servers of a configuration by name."""
    if path.endswith(".toml"):
        import tomllib  # since Python 3.11
        with open(path, "rb") as file:
            config = tomllib.load(file)
    else:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    entries = config.get("mcpServers") or config.get("servers") or config.get("mcp_servers")
    if not entries:
        raise SystemExit(f"check: {path} names no server")
    return entries


def filled(value):
    """Fills in environment variables in an entry: ${NAME}, or ${env:NAME}."""
    if isinstance(value, str):
        return re.sub(r"\$\{(?:env:)?(\w+)\}", lambda name: os.environ[name[1]], value)
    if isinstance(value, list):
        return [filled(part) for part in value]
    return {name: filled(part) for name, part in value.items()} if isinstance(value, dict) else value


def ask(server, number, method, **params):
    answer = server.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    if "error" in answer:
        raise OSError(f"{method}: {answer['error']['message']}")
    return answer["result"]


def check(entry):
    """Returns the name of a server and the names of its tools."""
    server = HTTP(entry) if "url" in entry else Stdio(entry)
    try:
        hello = ask(server, 1, "initialize", protocolVersion=VERSION, capabilities={}, clientInfo={"name": "check", "version": "1"})
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        tools, cursor = [], None
        while True:
            page = ask(server, 2, "tools/list", **({"cursor": cursor} if cursor else {}))
            tools += [tool["name"] for tool in page["tools"]]
            cursor = page.get("nextCursor")
            if not cursor:
                return hello["serverInfo"]["name"], sorted(tools)
    finally:
        server.close()


def main(paths):
    failed = False
    for path in paths:
        for name, entry in servers(path).items():
            try:
                who, tools = check(filled(entry))
                print(f"{path}: {name} is {who} and has {', '.join(tools)}")
            except KeyError as e:
                failed = True
                print(f"{path}: {name} needs {e.args[0]}")
            except (OSError, ValueError) as e:  # the errors of urllib and subprocess are OSErrors
                failed = True
                print(f"{path}: {name} does not work: {e}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
