# Made from _async/runs.py by scripts/generate.py. Do not edit.
"""Runs: start, follow, wait, cancel, and get their artifacts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, List, Optional, Union, cast

from .. import _spec
from .._address import path
from .._body import Content
from .._frame import Frame, Printed
from .._retry import Passing, Patience
from .._run import ENDED, RunState
from .._spec import Command
from .._wire import pause, settle
from ..errors import BelljarError, InternalError, InvalidRequestError, TimeoutError, UnreachableError
from .stdin import Stdin
from .incoming import Incoming, read_all, save_to
from .transport import Ask, Transport
from .usage import watch_usage

if TYPE_CHECKING:
    from .. import types

FIRST_WAIT = 30.0  # seconds to wait for the answer to a start; then the log is followed


class Run(RunState):
    """A run, with the state of the server's last answer. :meth:`refresh` and :meth:`wait` get a newer one."""

    def __init__(self, runs: Runs, raw: dict[str, Any]) -> None:
        super().__init__(raw)
        self._runs = runs

    def refresh(self) -> Run:
        """Gets the run's current state from the server."""
        kept = {name: value for name, value in self.raw.items() if name.startswith(("stdout", "stderr", "results"))}
        self.raw = {**(self._runs._get(self.id)), **kept}
        return self

    def wait(self, timeout: Optional[float] = None) -> Run:
        """Waits for the run's end and output. After ``timeout`` seconds it raises TimeoutError, and the run continues."""
        if not (self.ended and self.printed):
            self.raw = self._runs._await(self.id, timeout)
        return self

    def cancel(self) -> None:
        """Cancels the run: TERM, a grace period, KILL. Returns at once. It is not an error if the run has ended."""
        self._runs.cancel(self.id)

    def logs(self, *, since_seq: int = 0, tail: bool = False) -> Iterator[Frame]:
        """Yields the run's log as it arrives, to its end: see :meth:`Runs.logs`."""
        return self._runs.logs(self.id, since_seq=since_seq, tail=tail)

    def usage(self) -> Iterator[types.UsageSample]:
        """Yields the usage of the run's sandbox, about once a second, until the run ends: see :meth:`Runs.usage`."""
        return self._runs.usage(self.id)

    def artifacts(self) -> List[types.Artifact]:
        """Lists the files that were captured from the run, by path; none until it has ended."""
        return self._runs.artifacts(self.id)

    def artifact(self, name: str) -> bytes:
        """Returns the bytes of one captured file."""
        return self._runs.artifact(self.id, name)

    def stdin(self) -> Stdin:
        """Opens the standard input of an interactive run."""
        return self._runs.stdin(self.id)


class Runs:
    """The caller's runs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def run(
        self,
        command: Optional[Command] = None,
        *,
        code: Optional[str] = None,
        language: Optional[str] = None,
        image: Optional[str] = None,
        session: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        secrets: Optional[Mapping[str, types.Secret]] = None,
        files: Optional[Mapping[str, Content]] = None,
        stdin: Optional[Union[str, bytes]] = None,
        capture: Optional[Iterable[str]] = None,
        timeout: Optional[float] = None,
        cpu_time: Optional[float] = None,
        startup_timeout: Optional[float] = None,
        build_timeout: Optional[float] = None,
        build_memory_mb: Optional[int] = None,
        build_cache: Optional[bool] = None,
        resources: Optional[types.Resources] = None,
        labels: Optional[Mapping[str, str]] = None,
        runtime: Optional[str] = None,
        isolation: Optional[str] = None,
        trust_level: Optional[str] = None,
        network_policy: Optional[str] = None,
        egress: Optional[types.Egress] = None,
        git: Optional[types.GitSpec] = None,
        packages: Optional[types.Packages] = None,
        snapshot: Optional[str] = None,
        template: Optional[str] = None,
        warm: Optional[str] = None,
        workspace: Optional[types.Workspace] = None,
        workspace_exec: Optional[bool] = None,
        idempotency_key: Optional[str] = None,
        on_output: Optional[Callable[[Frame], object]] = None,
        wait: Optional[float] = None,
        cancel: bool = True,
    ) -> Run:
        """Runs a command, or a program's text, and returns the run with its output when it has ended.

        ``command`` is a program and its arguments, or a line for ``sh -c``. ``code`` and ``language`` are a program's text. With
        ``language``, a list in ``command`` begins with a source file. ``image`` is the root file system (``host``: the server's own
        programs). ``session`` is the id of a session to run in instead. ``files`` are written to the workspace first; files that
        match ``capture`` are kept when the run has ended.
        ``timeout`` limits the program in seconds; output until then is kept. ``build_timeout`` and ``build_memory_mb`` limit the
        compiler, which runs first and whose output is in ``build``. ``cpu_time`` limits the total CPU seconds of the program and
        its children. With ``build_cache`` the same program is compiled once.
        With ``network_policy="allowlist"``, ``egress`` lists the hosts that the program may reach:
        ``{"hosts": ["api.example.com"]}``. ``secrets`` are files in ``/run/secrets``: ``{"TOKEN": {"value": ...}}``, or
        ``{"from": ...}`` for a stored one.
        ``git`` names a repository for the initial workspace: ``{"url": "https://…", "ref": "main", "patch": diff}``.
        ``packages`` are installed first, and kept for later runs: ``{"pip": ["requests"], "npm": ["left-pad"]}``.
        ``snapshot`` is the id of a snapshot to mount at ``/snapshot``. ``warm="off"`` starts an interpreter for this run alone.
        ``template`` names a template, which has the image, packages, environment and files.
        ``workspace`` puts ``/workspace`` on disk: ``{"volume": "data"}``, or ``{"medium": "disk", "mb": 2048}``.

        ``on_output`` is called with each frame of stdout and stderr as it arrives. ``wait`` limits this
        call in seconds; after that it raises TimeoutError. Unless ``cancel`` is false, the run is cancelled if the call is ended by
        ``wait``, an ``on_output`` that raises, or by Ctrl-C.
        """
        spec = _spec.run(
            command=command, code=code, language=language, image=image, session=session, cwd=cwd, env=env, files=files, stdin=stdin,
            capture=capture, timeout=timeout, startup_timeout_sec=startup_timeout, build_timeout_sec=build_timeout, build_memory_mb=build_memory_mb, build_cache=build_cache, cpu_time_sec=cpu_time, resources=resources, labels=labels, runtime=runtime,
            isolation=isolation, trust_level=trust_level, network_policy=network_policy, egress=egress, git=git, secrets=secrets, packages=packages, snapshot=snapshot, template=template, warm=warm, workspace=workspace, workspace_exec=workspace_exec,
        )  # fmt: skip
        return self._finish(spec, _spec.checked(idempotency_key), wait, cancel, on_output)

    def start(
        self,
        command: Optional[Command] = None,
        *,
        code: Optional[str] = None,
        language: Optional[str] = None,
        image: Optional[str] = None,
        session: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        secrets: Optional[Mapping[str, types.Secret]] = None,
        files: Optional[Mapping[str, Content]] = None,
        stdin: Optional[Union[str, bytes]] = None,
        interactive: bool = False,
        stdin_max_bytes: Optional[int] = None,
        stdin_max_frame_bytes: Optional[int] = None,
        stdin_bps: Optional[int] = None,
        stdin_idle_timeout: Optional[float] = None,
        capture: Optional[Iterable[str]] = None,
        timeout: Optional[float] = None,
        cpu_time: Optional[float] = None,
        startup_timeout: Optional[float] = None,
        build_timeout: Optional[float] = None,
        build_memory_mb: Optional[int] = None,
        build_cache: Optional[bool] = None,
        resources: Optional[types.Resources] = None,
        labels: Optional[Mapping[str, str]] = None,
        runtime: Optional[str] = None,
        isolation: Optional[str] = None,
        trust_level: Optional[str] = None,
        network_policy: Optional[str] = None,
        egress: Optional[types.Egress] = None,
        git: Optional[types.GitSpec] = None,
        packages: Optional[types.Packages] = None,
        snapshot: Optional[str] = None,
        template: Optional[str] = None,
        warm: Optional[str] = None,
        workspace: Optional[types.Workspace] = None,
        workspace_exec: Optional[bool] = None,
        shell: Optional[types.ShellCommand] = None,
        idempotency_key: Optional[str] = None,
    ) -> Run:
        """Starts a run as :meth:`run` does and returns without waiting for its end. ``interactive`` keeps its standard input open.

        The server closes the input after ``stdin_max_bytes``, or after ``stdin_idle_timeout`` seconds without input. ``stdin_bps``
        limits the bytes per second, and ``stdin_max_frame_bytes`` the bytes of one message.
        """
        spec = _spec.run(
            command=command, code=code, language=language, image=image, session=session, cwd=cwd, env=env, files=files, stdin=stdin,
            interactive=interactive, capture=capture, timeout=timeout, startup_timeout_sec=startup_timeout, build_timeout_sec=build_timeout, build_memory_mb=build_memory_mb, build_cache=build_cache, cpu_time_sec=cpu_time, resources=resources,
            labels=labels, runtime=runtime, isolation=isolation, trust_level=trust_level, network_policy=network_policy, egress=egress, git=git, secrets=secrets, packages=packages, snapshot=snapshot, template=template, warm=warm, workspace=workspace,
            workspace_exec=workspace_exec, shell=shell, stdin_max_bytes=stdin_max_bytes, stdin_max_frame_bytes=stdin_max_frame_bytes, stdin_bps=stdin_bps,
            stdin_idle_timeout_sec=stdin_idle_timeout,
        )  # fmt: skip
        return Run(self, self._start(spec, _spec.checked(idempotency_key)))

    def _start(self, spec: dict[str, Any], key: str, brief: bool = False) -> dict[str, Any]:
        return self._started(Ask("POST", path("runs"), spec, values={"wait": "false"}, key=key, brief=brief))

    def _started(self, ask: Ask) -> dict[str, Any]:
        return cast("dict[str, Any]", self._transport.ask(ask, "id", "phase"))

    def _finish(
        self, spec: dict[str, Any], key: str, wait: Optional[float], cancel: bool, on_output: Optional[Callable[[Frame], object]]
    ) -> Run:
        """Starts a run and returns it once it has ended. If the connection breaks, it repeats the start under its key, and waits again."""
        until = _end(wait)
        first = 0.0 if on_output is not None else FIRST_WAIT if wait is None else max(min(FIRST_WAIT, wait), 0.0)
        ask = Ask("POST", path("runs"), spec, values={"wait": f"{first:.3f}"}, key=key, longer=first, until=until)
        known = ""
        telling = False

        def tell(frame: Frame) -> None:
            nonlocal telling
            if on_output is not None and frame.data and frame.type != "result":
                telling = True
                settle(on_output(frame))
                telling = False

        try:
            raw = self._started(ask)
            known = str(raw["id"])
            if "stdout" not in raw:
                raw = self._collect(known, until, tell)
            elif raw.get("results_truncated"):  # the answer has only the first results
                shown = self._transport.ask(Ask("GET", path("runs", known, "results"), until=until), "items")
                raw = {**raw, "results": shown["items"], "results_truncated": shown.get("truncated", False)}
            return Run(self, raw)
        except BaseException as e:
            given_up = telling or not isinstance(e, BelljarError)  # Ctrl-C, a failing on_output
            leaves = cancel and ask.sent
            if leaves and given_up:
                self._transport.leaving.start(lambda: self._abandon(spec, key, known))
            elif leaves and isinstance(e, TimeoutError):
                raise self._overdue(spec, key, known) from e.__cause__
            raise

    def _overdue(self, spec: dict[str, Any], key: str, known: str) -> TimeoutError:
        """Cancels a run whose time to wait is over. The error that it returns states whether that worked."""
        over, details = "the time to wait is over, and the run ", {"run_id": known} if known else {}
        try:
            details["run_id"] = self._abandon(spec, key, known)
        except BelljarError as e:
            return TimeoutError(f"{over}could not be cancelled: {e.message}", details=details, hint=e.hint)
        return TimeoutError(f"{over}is cancelled", details=details)

    def _abandon(self, spec: dict[str, Any], key: str, known: str) -> str:
        """Cancels an abandoned run, and returns its id. It finds an unknown id by the request's key.

        That would start a run that the server has not accepted yet.
        """
        if not known:
            known = str((self._start(spec, key, brief=True))["id"])
        self._transport.ask(Ask("POST", path("runs", known, "cancel"), again=True, brief=True))
        return known

    def _collect(self, id: str, until: Optional[float], tell: Optional[Callable[[Frame], None]] = None) -> dict[str, Any]:
        """Follows a run to its end, and returns its state and output."""
        printed = Printed()
        for frame in self._follow(id, 0, until):
            printed.add(frame)
            if tell is not None:
                tell(frame)
        return {**(self._get(id)), **printed.answer()}

    def _get(self, id: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self._transport.ask(Ask("GET", path("runs", id)), "id", "phase"))

    def get(self, id: str) -> Run:
        """Gets a run; NotFoundError if there is none."""
        return Run(self, self._get(id))

    def list(
        self,
        *,
        phase: Optional[str] = None,
        session: Optional[str] = None,
        runtime: Optional[str] = None,
        image: Optional[str] = None,
        q: Optional[str] = None,
        sort: Optional[str] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
    ) -> types.RunPage:
        """Returns a page of the caller's runs, newest first by default; an example of ``sort`` is ``finished_at:desc``."""
        values = {
            "phase": phase, "session_id": session, "runtime": runtime, "base_image": image, "q": q, "sort": sort, "limit": limit, "offset": offset,
        }  # fmt: skip
        return cast("types.RunPage", self._transport.ask(Ask("GET", path("runs"), values=values)))

    def wait(self, id: str, timeout: Optional[float] = None) -> Run:
        """Waits for a run's end and its output: see :meth:`Run.wait`."""
        return Run(self, self._await(id, timeout))

    def _await(self, id: str, timeout: Optional[float]) -> dict[str, Any]:
        """Follows a run to its end. A run that has ended has its whole log, also if there is no time to wait."""
        if timeout is not None and timeout <= 0:
            run = self._transport.ask(Ask("GET", path("runs", id), until=_end(0.0)), "id", "phase")
            if run["phase"] in ENDED:
                timeout = None
        return self._collect(id, _end(timeout))

    def cancel(self, id: str) -> types.Cancellation:
        """Cancels a run: TERM, a grace period, KILL. Returns at once. It is not an error if the run has ended."""
        return cast("types.Cancellation", self._transport.ask(Ask("POST", path("runs", id, "cancel"), again=True)))

    def logs(self, id: str, *, since_seq: int = 0, tail: bool = False) -> Iterator[Frame]:
        """Yields a run's log as it arrives, to its end: from the frame after ``since_seq``, or with ``tail`` only new frames.

        If the connection breaks or the server restarts, the log resumes after the last frame: no frame is missing or
        repeated, as long as the client's ``patience`` lasts. If the server no longer has the requested frames, the first
        frame has a greater seq.
        """
        if since_seq < 0:
            raise InvalidRequestError(f"since_seq must not be negative, got {since_seq}", details={"field": "since_seq"}, hint="tail=True follows from now on")
        return self._follow(id, -1 if tail else since_seq, None)

    def _follow(self, id: str, since: int, until: Optional[float]) -> Iterator[Frame]:
        if since < 0:  # where the tail begins: a connection that breaks before its first frame then loses none
            run = self._get(id)
            since = int(run.get("last_seq") or 0)
            if since and run["phase"] in ENDED:
                since -= 1  # the end event always counts as new
        whole = self._transport.patience
        patience = Patience(whole)
        while True:
            received = False
            try:
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError("the run continues", details={"run_id": id})
                with self._open_log(id, since, until) as answer:
                    if answer.head.status == 204:
                        return
                    for events in answer.events(until):
                        for _, data in events:
                            frame = _frame(data)
                            received = True
                            if frame.event == "resume":  # since is lower if the log is shorter than that
                                since = min(since, frame.seq - 1)
                            if frame.note or frame.seq <= since:
                                continue
                            since = frame.seq
                            yield frame
                            if frame.last:
                                return
                raise Passing(UnreachableError("the log broke off"))
            except TimeoutError:
                raise TimeoutError("the run continues", details={"run_id": id}) from None
            except Passing as failure:
                if received:
                    patience = Patience(whole * 10)
                delay = patience.wait(failure)
            if until is not None:
                delay = max(min(delay, until - time.monotonic()), 0.0)
            pause(delay)

    def _open_log(self, id: str, since: int, until: Optional[float]) -> Incoming:
        ask = Ask(
            "GET", path("runs", id, "logs"), values={"follow": "true", "since_seq": since}, headers={"Accept": "text/event-stream"}, until=until,
        )  # fmt: skip
        return self._transport.attempt(ask)

    def usage(self, id: str) -> Iterator[types.UsageSample]:
        """Yields the usage of a run's sandbox, about once a second, from the start of the sandbox until the run ends.

        A run in a session shares the session's sandbox: the figures are those of the whole session, and ``scope`` states
        this. If the connection breaks, it ends with an error: the server keeps no samples.
        """
        return watch_usage(self._transport, path("runs", id, "usage"))

    def artifacts(self, id: str) -> List[types.Artifact]:
        """Lists the files captured from a run, by path; none until it has ended."""
        return cast("list[types.Artifact]", (self._transport.ask(Ask("GET", path("runs", id, "artifacts")), "items"))["items"])

    def artifact(self, id: str, name: str) -> bytes:
        """Returns the bytes of one captured file."""
        return self._transport.repeat(self._artifact(id, name), read_all)

    def save_artifact(self, id: str, name: str, to: Union[str, os.PathLike[str]]) -> None:
        """Writes one captured file to a local file, which appears when it is complete."""
        self._transport.repeat(self._artifact(id, name), save_to(to))

    def _artifact(self, id: str, name: str) -> Ask:
        return Ask("GET", path("runs", id, "artifacts", *name.split("/")), headers={"Accept": "*/*"})

    def stdin(self, id: str) -> Stdin:
        """Opens the standard input of an interactive run; ConflictError if it is not interactive or has ended."""
        return Stdin.open(self._transport, id, self._get(id))


def _end(timeout: Optional[float]) -> Optional[float]:
    """Returns the time on the monotonic clock after so many seconds."""
    return None if timeout is None else time.monotonic() + timeout


def _frame(data: bytes) -> Frame:
    try:
        return Frame.parse(data)
    except ValueError as e:
        raise InternalError(f"the log cannot be read: {e}") from None
