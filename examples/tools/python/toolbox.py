"""Function tools for OpenAI's chat completions and compatible APIs, which work in a sandbox.

    toolbox = Toolbox(session)
    request["tools"] = Toolbox.TOOLS
    content = toolbox.call(call["function"]["name"], call["function"]["arguments"])

The session is a :class:`belljar.Session`. A call never raises: errors are text for the model to read.
"""

import json

from belljar import BelljarError


def _tool(name, description, **properties):
    """A function tool with all arguments required, as strict mode demands."""
    return {"type": "function", "function": {
        "name": name, "description": description, "strict": True,
        "parameters": {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False},
    }}


_PATH = {"type": "string", "description": "in the workspace, such as src/main.py"}


class Toolbox:
    """Tools on one session: files and the shell persist between calls."""

    LANGUAGES = ["python", "javascript", "bash"]
    TOOLS = [
        _tool("run_code", "Runs a program and returns what it prints. It starts in the workspace and has no network.",
              language={"type": "string", "enum": LANGUAGES}, code={"type": "string"}),
        _tool("shell", "Gives a line to a bash that keeps its directory, variables and background jobs.",
              command={"type": "string"}),
        _tool("write_file", "Writes a text file, in place of one that is there.", path=_PATH, contents={"type": "string"}),
        _tool("read_file", "Reads a text file.", path=_PATH),
        _tool("list_files", "Lists the files of the workspace."),
    ]

    def __init__(self, session, timeout=60, most=8000):
        """``timeout`` is in seconds and applies to each command; ``most`` is the number of characters that the model gets of an output."""
        self.session, self.timeout, self.most = session, timeout, most

    def call(self, name, arguments):
        """Calls the tool that the model requests and returns the text for the model."""
        if name not in {tool["function"]["name"] for tool in self.TOOLS}:
            return f"error: there is no tool {name!r}"
        try:
            given = json.loads(arguments or "{}")
            return getattr(self, "_" + name)(**given)
        except BelljarError as e:
            return f"error: {e}"
        except (TypeError, ValueError) as e:
            return f"error: the arguments of {name} are wrong: {e}"

    def _run_code(self, language, code):
        if language not in self.LANGUAGES:
            raise ValueError(f"language is one of {', '.join(self.LANGUAGES)}")
        run = self.session.run(code=code, language=language, timeout=self.timeout)
        return self._result(run.stdout + run.stderr, "" if run.ok else run.message)

    def _shell(self, command):
        done = self.session.shell(command, timeout=self.timeout)
        return self._result(done.output, f"exit code {done.exit_code}" if done.exit_code else "")

    def _write_file(self, path, contents):
        self.session.files.write(path, contents, overwrite=True)
        return "written"

    def _read_file(self, path):
        return self._result(self.session.files.read_text(path, errors="replace"), "")

    def _list_files(self):
        return "\n".join(entry["path"] for entry in self.session.files.list(recursive=True, limit=200)) or "nothing is there"

    def _result(self, text, end):
        """Returns the model's view of an output: of a long one, the beginning and the end."""
        if len(text) > self.most:
            left = len(text) - self.most
            text = f"{text[:self.most // 2]}\n[{left} characters left out]\n{text[-self.most // 2:]}"
        if end:
            text += f"\n[{end}]" if text and not text.endswith("\n") else f"[{end}]"
        return text or "[it printed nothing]"
