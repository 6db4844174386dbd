"""The state of a run, without requests."""

from __future__ import annotations

from typing import Any, Optional

from ._frame import output

NEVER = 125  # the exit code of a command that never ran
WORKSPACE = "/workspace"
ENDED = ("completed", "failed", "killed", "timed_out")


class RunState:
    """A run as in the server's last answer. ``raw`` is that whole answer (:class:`belljar.types.Run`)."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    @property
    def id(self) -> str:
        """The run's id."""
        return str(self.raw["id"])

    @property
    def phase(self) -> str:
        """The run's phase: queued, starting, running; completed, failed, killed, timed_out."""
        return str(self.raw["phase"])

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.phase in ENDED

    @property
    def ok(self) -> bool:
        """Whether the run succeeded: completed, with exit code 0."""
        return self.phase == "completed" and self.exit_code == 0

    @property
    def exit_code(self) -> Optional[int]:
        """The run's exit status: 128+n if signal n ended it, None while it runs and if it never started."""
        return self.raw.get("exit_code")

    @property
    def signal(self) -> str:
        """The signal that ended the run, such as SIGKILL; "" for none."""
        return self.raw.get("signal") or ""

    @property
    def reason_code(self) -> str:
        """Why the run did not complete, for programs: nonzero_exit, execution_timeout, cpu_time_exceeded, oom_killed …; "" if it
        completed."""
        return self.raw.get("reason_code") or ""

    @property
    def message(self) -> str:
        """The reason, for people."""
        return self.raw.get("message") or ""

    @property
    def hint(self) -> str:
        """The next thing to do; "" if there is nothing."""
        return self.raw.get("hint") or ""

    @property
    def warnings(self) -> list[str]:
        """Problems that were not fatal, such as limits that are not enforced."""
        return list(self.raw.get("warnings") or [])

    @property
    def limits_enforced(self) -> dict[str, str]:
        """The mechanism that enforces each limit (cpu, memory, pids, disk, wall_time), or its substitute. A limit that is not enforced
        is absent."""
        return dict(self.raw.get("limits_enforced") or {})

    @property
    def failure(self) -> Optional[dict[str, Any]]:
        """The failure reason in the output of a failed run (:class:`belljar.types.RunFailure`): language, type, message and frames, the
        innermost first; None if the output has none, and in lists. The program wrote it: never make it part of a page as HTML."""
        return self.raw.get("failure")

    @property
    def env_names(self) -> list[str]:
        """The names of the request's environment variables, sorted. Their values are not kept."""
        return list(self.raw.get("env_names") or [])

    @property
    def network(self) -> Optional[dict[str, Any]]:
        """The network of the request (:class:`belljar.types.NetworkSpec`); None without one, and in a session."""
        return self.raw.get("network")

    @property
    def snapshot_digest(self) -> str:
        """The digest of the snapshot at ``/snapshot``, or of the one with which the session began; "" for none."""
        return self.raw.get("snapshot_digest") or ""

    @property
    def build(self) -> Optional[dict[str, Any]]:
        """The compilation of the program (:class:`belljar.types.Build`): argv, exit_code, output …; None if there was none."""
        return self.raw.get("build")

    @property
    def session_id(self) -> str:
        """The run's session; "" for a run without one."""
        return self.raw.get("session_id") or ""

    @property
    def stdout(self) -> str:
        """The run's standard output as text, with U+FFFD for bytes that are not UTF-8. "" until you have waited for the run."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """The run's standard error as text, as :attr:`stdout`."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def stdout_bytes(self) -> bytes:
        """The run's standard output: at most 1 MiB, half from its beginning and half from its end."""
        return output(self.raw, "stdout") or b""

    @property
    def stderr_bytes(self) -> bytes:
        """The run's standard error, bounded as :attr:`stdout_bytes`."""
        return output(self.raw, "stderr") or b""

    @property
    def results(self) -> list[dict[str, Any]]:
        """The results of code in a context (:class:`belljar.types.Result`): values, displays and errors, in order. They come from the
        program: never make their HTML part of a page."""
        return list(self.raw.get("results") or [])

    @property
    def value(self) -> str:
        """The value of the code's last expression, as text; "" for none."""
        for r in reversed(self.results):
            if r["type"] == "value":
                return str((r.get("data") or {}).get("text/plain", ""))
        return ""

    @property
    def error(self) -> Optional[dict[str, Any]]:
        """The failure of the code: name, value, frames and traceback; None if it succeeded."""
        return next((r for r in self.results if r["type"] == "error"), None)

    @property
    def context(self) -> dict[str, Any]:
        """The context of the code: name, language, and state (kept, or replaced or new if its variables are gone)."""
        return dict(self.raw.get("context") or {})

    @property
    def truncated(self) -> bool:
        """Whether some of the output is missing here: the whole log may have more (``logs``)."""
        return bool(self.raw.get("stdout_truncated") or self.raw.get("stderr_truncated") or self.raw.get("truncated"))

    @property
    def printed(self) -> bool:
        """Whether the output is here."""
        return "stdout" in self.raw

    def __repr__(self) -> str:
        code = "" if self.exit_code is None else f", exit_code={self.exit_code}"
        return f"<{type(self).__name__} {self.id} {self.phase}{code}>"


class ShellResult:
    """The result of a command in a session's shell. ``raw`` is the command's run (:class:`belljar.types.Run`)."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    @property
    def run_id(self) -> str:
        """The id of the command's run."""
        return str(self.raw["id"])

    @property
    def exit_code(self) -> int:
        """The command's exit status: 124 after a timeout, 125 if it never began."""
        code = self.raw.get("exit_code")
        return NEVER if code is None else int(code)

    @property
    def output(self) -> str:
        """The command's output, stdout and stderr together; with ``separate`` stdout first, then stderr."""
        return self.output_bytes.decode("utf-8", "replace")

    @property
    def output_bytes(self) -> bytes:
        """The command's output as bytes."""
        return self.stdout_bytes + self.stderr_bytes

    @property
    def stdout(self) -> str:
        """The command's standard output; without ``separate`` the whole output."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """The command's standard error, with ``separate``."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def stdout_bytes(self) -> bytes:
        return output(self.raw, "stdout") or b""

    @property
    def stderr_bytes(self) -> bytes:
        return output(self.raw, "stderr") or b""

    @property
    def cwd(self) -> str:
        """The directory in which the next command starts."""
        return str((self.raw.get("shell") or {}).get("cwd") or WORKSPACE)

    @property
    def shell(self) -> str:
        """kept, or replaced if the command ended the shell: the next command has a new shell, without the variables. "" if the command
        never began."""
        return str((self.raw.get("shell") or {}).get("state") or "")

    @property
    def truncated(self) -> bool:
        """Whether some of the output is missing."""
        return bool(self.raw.get("stdout_truncated") or self.raw.get("stderr_truncated") or self.raw.get("truncated"))

    @property
    def timed_out(self) -> bool:
        """Whether the command timed out."""
        return bool(self.raw.get("phase") == "timed_out")

    @property
    def reason_code(self) -> str:
        """Why the command did not complete, for programs; "" if it completed."""
        return self.raw.get("reason_code") or ""

    @property
    def message(self) -> str:
        """The reason, for people."""
        return self.raw.get("message") or ""

    def __repr__(self) -> str:
        return f"<ShellResult exit_code={self.exit_code} cwd={self.cwd!r} {len(self.output_bytes)} bytes>"
