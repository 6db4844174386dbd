# Made from _async/sessions.py by scripts/generate.py. Do not edit.
"""Sessions: a caller's named, expiring hold on a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, List, Optional, Union, cast

from .. import _spec
from .._address import path
from .._body import Content
from .._frame import Frame
from .._run import ShellResult
from .._spec import Command
from .._wire import pause
from ..errors import PolicyDeniedError
from .files import Files
from .runs import Run, Runs
from .snapshots import Snapshots
from .templates import BUILD
from .terminals import Terminal, Terminals
from .transport import Ask, Transport
from .usage import watch_usage

if TYPE_CHECKING:
    from .. import types

STARTUP = 60.0  # extra seconds for an answer that waits for a sandbox
CLONE = 120.0  # extra seconds for a clone, at least
INSTALL = 600.0  # for the installation of packages
FORK = 600.0  # for copies of a session
PRESETS = 120.0  # for resolving presets


class Session:
    """A session. A ``with`` statement closes it at its end; otherwise it lives until it expires or is closed.

    ``raw`` is the server's last answer about the session (:class:`belljar.types.Session`). ``files`` is its workspace.
    """

    def __init__(self, sessions: Sessions, raw: dict[str, Any]) -> None:
        self.raw = raw
        self._sessions = sessions
        self._transport = sessions._transport
        self.files = Files(self._transport, self.id)

    @property
    def id(self) -> str:
        """The session's id."""
        return str(self.raw["session_id"])

    @property
    def state(self) -> str:
        """The session's state: starting, active, hibernated; closed, expired, crashed, lost."""
        return str(self.raw["state"])

    @property
    def created(self) -> bool:
        """Whether this call created the session: ``open`` may return an existing one."""
        return bool(self.raw.get("created", True))

    @property
    def scope(self) -> str:
        """The session's scope as namespace:id:key; "" for none."""
        return self.raw.get("scope_key") or ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    def refresh(self) -> Session:
        """Gets the session's current state from the server."""
        self.raw = {**self.raw, **(self._transport.ask(Ask("GET", path("sessions", self.id))))}
        return self

    def network(self) -> types.NetworkSpec:
        """Returns the session's current network rules."""
        return cast("types.NetworkSpec", self._transport.ask(Ask("GET", path("sessions", self.id, "network"))))

    def set_network(self, network_policy: str, egress: Optional[types.Egress] = None) -> types.NetworkSpec:
        """Changes the session's network rules at once, and cuts connections that the new rules do not allow."""
        spec = _spec.given({"network_policy": network_policy, "egress": egress})
        return cast("types.NetworkSpec", self._transport.ask(Ask("PUT", path("sessions", self.id, "network"), spec)))

    def close(self) -> None:
        """Ends the session: cancels its runs, and removes its sandbox and workspace. A second call is not an error."""
        self._sessions.close(self.id)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def run(
        self,
        command: Optional[Command] = None,
        *,
        code: Optional[str] = None,
        language: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        files: Optional[Mapping[str, Content]] = None,
        stdin: Optional[Union[str, bytes]] = None,
        capture: Optional[Iterable[str]] = None,
        timeout: Optional[float] = None,
        cpu_time: Optional[float] = None,
        resources: Optional[types.Resources] = None,
        labels: Optional[Mapping[str, str]] = None,
        idempotency_key: Optional[str] = None,
        on_output: Optional[Callable[[Frame], object]] = None,
        wait: Optional[float] = None,
        cancel: bool = True,
    ) -> Run:
        """Runs a command in the session and returns when it has ended: see :meth:`Runs.run`."""
        return self._runs.run(
            command, code=code, language=language, session=self.id, cwd=cwd, env=env, files=files, stdin=stdin, capture=capture,
            timeout=timeout, cpu_time=cpu_time, resources=resources, labels=labels, idempotency_key=idempotency_key, on_output=on_output, wait=wait,
            cancel=cancel,
        )  # fmt: skip

    def start(
        self,
        command: Optional[Command] = None,
        *,
        code: Optional[str] = None,
        language: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
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
        resources: Optional[types.Resources] = None,
        labels: Optional[Mapping[str, str]] = None,
        idempotency_key: Optional[str] = None,
    ) -> Run:
        """Starts a command in the session and returns the run at once: see :meth:`Runs.start`."""
        return self._runs.start(
            command, code=code, language=language, session=self.id, cwd=cwd, env=env, files=files, stdin=stdin, interactive=interactive,
            capture=capture, timeout=timeout, cpu_time=cpu_time, resources=resources, labels=labels, idempotency_key=idempotency_key,
            stdin_max_bytes=stdin_max_bytes, stdin_max_frame_bytes=stdin_max_frame_bytes, stdin_bps=stdin_bps, stdin_idle_timeout=stdin_idle_timeout,
        )  # fmt: skip

    @property
    def _runs(self) -> Runs:
        return self._sessions._runs

    def shell(
        self,
        cmd: str,
        *,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        separate: bool = False,
        idempotency_key: Optional[str] = None,
        on_output: Optional[Callable[[Frame], object]] = None,
        wait: Optional[float] = None,
        cancel: bool = True,
    ) -> ShellResult:
        """Runs a line, or a script, in the session's shell, which keeps directory, variables and background jobs.

        ``timeout`` is in seconds. ``separate`` keeps stdout and stderr apart, on pipes; otherwise both are a
        terminal. ``on_output``, ``wait`` and ``cancel`` are as for :meth:`Runs.run`.
        """
        spec = _spec.run(session=self.id, shell=_shell(cmd, separate), timeout=timeout, stdin=stdin)
        run = self._runs._finish(spec, _spec.checked(idempotency_key), wait, cancel, on_output)
        return ShellResult(run.raw)

    def code(
        self,
        code: str,
        *,
        language: str = "python",
        context: Optional[str] = None,
        replay: bool = False,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        files: Optional[Mapping[str, Content]] = None,
        capture: Optional[Iterable[str]] = None,
        idempotency_key: Optional[str] = None,
        on_output: Optional[Callable[[Frame], object]] = None,
        wait: Optional[float] = None,
        cancel: bool = True,
    ) -> Run:
        """Executes code in a context, an interpreter that keeps variables and imports from one call to the next.

        ``language`` is python, ipython, javascript or bash. Each has a context of its own; ``context`` names another one. In the
        answer, ``value`` is the last expression's value, ``results`` has all results, and ``error`` is the failure, if any. With
        ``replay``, a context that has lost its interpreter executes its earlier code again first, without output. The rest is as
        for :meth:`run`.
        """
        name = context or {"py": "python", "js": "javascript", "node": "javascript", "sh": "bash"}.get(language, language)
        spec = _spec.run(
            session=self.id, code=code, language=language, context=name, timeout=timeout, stdin=stdin, files=files, capture=capture,
            replay=replay or None,
        )  # fmt: skip
        return self._runs._finish(spec, _spec.checked(idempotency_key), wait, cancel, on_output)

    def create_context(self, language: str, *, name: Optional[str] = None, cwd: Optional[str] = None) -> types.Context:
        """Starts a context, or returns the existing one of that name, which must have the same language and cwd."""
        body = _spec.given({"language": language, "name": name, "cwd": cwd})
        return cast("types.Context", self._transport.ask(Ask("POST", path("sessions", self.id, "contexts"), body, again=True, longer=STARTUP), "name"))

    def contexts(self) -> List[types.Context]:
        """Lists the session's contexts, sorted by name."""
        return cast("list[types.Context]", (self._transport.ask(Ask("GET", path("sessions", self.id, "contexts")), "items"))["items"])

    def restart_context(self, name: str) -> types.Context:
        """Ends a context's interpreter, runs and processes, and starts a new interpreter."""
        return cast("types.Context", self._transport.ask(Ask("POST", path("sessions", self.id, "contexts", name, "restart"), {}, longer=STARTUP), "name"))

    def delete_context(self, name: str) -> None:
        """Ends a context. A second call is not an error."""
        self._transport.ask(Ask("DELETE", path("sessions", self.id, "contexts", name), longer=STARTUP))

    def shell_start(self, cmd: str, *, timeout: Optional[float] = None, stdin: Optional[str] = None, separate: bool = False) -> Run:
        """Starts a line in the session's shell and returns the run: ``logs()`` yields the output as it arrives."""
        return self._runs.start(session=self.id, shell=_shell(cmd, separate), timeout=timeout, stdin=stdin)

    def shell_stream(self, cmd: str, *, timeout: Optional[float] = None, stdin: Optional[str] = None, separate: bool = False) -> Iterator[Frame]:
        """Runs a line in the session's shell and yields the output as it arrives, then the end of the log, whose ``info`` has the
        exit_code."""
        run = self.shell_start(cmd, timeout=timeout, stdin=stdin, separate=separate)
        for frame in run.logs():
            if frame.type in ("stdout", "stderr", "truncated") or frame.last:
                yield frame

    def terminal(
        self, *, cols: int = 80, rows: int = 24, command: Optional[Command] = None, name: Optional[str] = None, shared: bool = False
    ) -> Terminal:
        """Opens a terminal in the session and attaches to it. It runs ``command``, as for :meth:`run`, or a shell by default."""
        return Terminal.open(self._transport, self.id, cols=cols, rows=rows, command=command, name=name, shared=shared)

    def terminals(self) -> List[types.Terminal]:
        """Lists the session's terminals, oldest first."""
        return Terminals(self._transport).list(self.id)

    def usage(self) -> Iterator[types.UsageSample]:
        """Yields the usage of the session's sandbox, about once a second, until the session ends. Watching does not extend the session's
        life."""
        return watch_usage(self._transport, path("sessions", self.id, "usage"))

    def ports(self) -> List[types.Port]:
        """Lists the ports that programs in the session listen on. ``belljar session forward`` reaches them from this machine."""
        return cast("list[types.Port]", (self._transport.ask(Ask("GET", path("sessions", self.id, "ports")), "items"))["items"])

    def preview(self, port: int, *, public: bool = False, ttl: Optional[float] = None) -> types.Preview:
        """Makes a host name at which browsers reach a port: ``url``, and for a private one ``token_url``, to open first.

        ``ttl`` is its lifetime in seconds, an hour by default.
        """
        body = _spec.given({"port": port, "public": True if public else None, "ttl_sec": ttl})
        return cast("types.Preview", self._transport.ask(Ask("POST", path("sessions", self.id, "previews"), body), "label"))

    def previews(self) -> List[types.Preview]:
        """Lists the session's previews, oldest first, without their tokens."""
        return cast("list[types.Preview]", (self._transport.ask(Ask("GET", path("sessions", self.id, "previews")), "items"))["items"])

    def revoke_preview(self, label: str) -> None:
        """Ends a preview and its connections at once."""
        self._transport.ask(Ask("DELETE", path("sessions", self.id, "previews", label), again=False))

    def snapshot(self, name: Optional[str] = None, *, live: bool = False) -> types.Snapshot:
        """Saves the files of the workspace. If the runtime can, it freezes the programs meanwhile: ``consistent`` reports
        it. With ``live`` it also saves memory and processes, on runtime gvisor.
        """
        return Snapshots(self._transport)._make(self.id, name, live)

    def fork(self, count: int = 1, *, live: bool = False) -> List[Session]:
        """Makes copies of the session with its files, limits and network, and the directory, variables and functions of its
        shell, but without its secrets, its scope and, unless ``live``, its processes. It makes all of them or none.
        """
        body = {"count": count, "live": live}
        made = self._transport.ask(Ask("POST", path("sessions", self.id, "fork"), body, longer=FORK), "sessions")
        return [type(self)(self._sessions, raw) for raw in made["sessions"]]

    def hibernate(self, force: bool = False) -> types.Session:
        """Saves the session, and removes its sandbox until it is used again. If the runtime can, it saves the processes
        (``["hibernated"]["live"]`` of the answer), else the files and the state of the shell. ``force`` ends everything that runs in
        the session; without ``force``, a session in which anything runs is refused.
        """
        ask = Ask("POST", path("sessions", self.id, "hibernate"), {"force": force}, longer=FORK)
        return cast("types.Session", self._transport.ask(ask, "session_id"))


class Sessions:
    """The caller's sessions."""

    def __init__(self, transport: Transport, runs: Runs) -> None:
        self._transport, self._runs = transport, runs

    def create(
        self,
        *,
        image: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        secrets: Optional[Mapping[str, types.Secret]] = None,
        labels: Optional[Mapping[str, str]] = None,
        resources: Optional[types.Resources] = None,
        ttl: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        lifetime: Optional[float] = None,
        timeout: Optional[float] = None,
        cpu_time: Optional[float] = None,
        startup_timeout: Optional[float] = None,
        max_runs: Optional[int] = None,
        max_concurrent_runs: Optional[int] = None,
        runtime: Optional[str] = None,
        isolation: Optional[str] = None,
        trust_level: Optional[str] = None,
        network_policy: Optional[str] = None,
        egress: Optional[types.Egress] = None,
        git: Optional[types.GitSpec] = None,
        packages: Optional[types.Packages] = None,
        snapshot: Optional[str] = None,
        template: Optional[str] = None,
        workspace: Optional[types.Workspace] = None,
        workspace_exec: Optional[bool] = None,
        idempotency_key: Optional[str] = None,
    ) -> Session:
        """Creates a session without a scope, and returns when it can be used. If an operator must approve it first, that may take
        long; PolicyDeniedError if it is denied, or not approved in time.

        Times are in seconds: ``ttl`` is the life after the last use, ``idle_timeout`` the time without activity after which the
        session ends, ``lifetime`` the total life, and ``timeout`` and ``cpu_time`` the limits of a run that sets none. ``env``
        is for every run. ``workspace_exec`` allows programs in the workspace to be executed. With
        ``network_policy="allowlist"``, ``egress`` lists the destinations that programs may reach. ``secrets`` are files in
        ``/run/secrets``.
        The workspace begins with the repository ``git``, or with the snapshot whose id is ``snapshot``.
        ``template`` names a template, which has the image, packages, environment and files.
        ``workspace`` puts ``/workspace`` on disk: ``{"volume": "data"}``, or ``{"medium": "disk", "mb": 2048}``.
        ``packages`` are installed for all runs: ``{"pip": ["requests"], "npm": ["left-pad"]}``.
        """
        spec = _spec.session(
            image=image, env=env, labels=labels, resources=resources, ttl=ttl, idle_timeout=idle_timeout, lifetime=lifetime, timeout=timeout,
            cpu_time_sec=cpu_time, startup_timeout=startup_timeout, max_runs=max_runs, max_concurrent_runs=max_concurrent_runs, runtime=runtime,
            isolation=isolation, trust_level=trust_level, network_policy=network_policy, egress=egress, git=git, secrets=secrets, packages=packages, snapshot=snapshot, template=template, workspace=workspace, workspace_exec=workspace_exec,
        )  # fmt: skip
        return self._make(path("sessions"), spec, idempotency_key)

    def open(
        self,
        namespace: str,
        id: str,
        key: Optional[str] = None,
        *,
        image: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        secrets: Optional[Mapping[str, types.Secret]] = None,
        labels: Optional[Mapping[str, str]] = None,
        resources: Optional[types.Resources] = None,
        ttl: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        lifetime: Optional[float] = None,
        timeout: Optional[float] = None,
        cpu_time: Optional[float] = None,
        startup_timeout: Optional[float] = None,
        max_runs: Optional[int] = None,
        max_concurrent_runs: Optional[int] = None,
        runtime: Optional[str] = None,
        isolation: Optional[str] = None,
        trust_level: Optional[str] = None,
        network_policy: Optional[str] = None,
        egress: Optional[types.Egress] = None,
        git: Optional[types.GitSpec] = None,
        packages: Optional[types.Packages] = None,
        snapshot: Optional[str] = None,
        template: Optional[str] = None,
        workspace: Optional[types.Workspace] = None,
        workspace_exec: Optional[bool] = None,
        idempotency_key: Optional[str] = None,
    ) -> Session:
        """Returns the live session of a scope, or creates it; ``created`` of the result is true for a new one.

        ``namespace`` is workflow, agent, user or thread, ``id`` is its id, and ``key`` is the session's name within it.
        The other arguments are as for :meth:`create`; they do not change an existing session.
        """
        spec = _spec.session(
            image=image, env=env, labels=labels, resources=resources, ttl=ttl, idle_timeout=idle_timeout, lifetime=lifetime, timeout=timeout,
            cpu_time_sec=cpu_time, startup_timeout=startup_timeout, max_runs=max_runs, max_concurrent_runs=max_concurrent_runs, runtime=runtime,
            isolation=isolation, trust_level=trust_level, network_policy=network_policy, egress=egress, git=git, secrets=secrets, packages=packages, snapshot=snapshot, template=template, workspace=workspace, workspace_exec=workspace_exec,
            scope=_spec.scope(namespace, id, key),
        )  # fmt: skip
        return self._make(path("sessions", "open"), spec, idempotency_key)

    def _make(self, target: str, spec: dict[str, Any], key: Optional[str]) -> Session:
        longer = max(STARTUP, float(spec.get("startup_timeout_sec") or 0))
        if "git" in spec:
            longer += max(CLONE, longer)
        if "packages" in spec:
            longer += INSTALL
        if (spec.get("egress") or {}).get("presets"):
            longer += PRESETS
        if spec.get("template"):  # it may have to be rebuilt first
            longer += BUILD
        made = Session(self, self._transport.ask(Ask("POST", target, spec, key=_spec.checked(key), longer=longer), "session_id", "state"))
        while made.state == "starting" and made.raw.get("approval"):
            pause(1.0)
            made.refresh()
        if made.raw.get("approval") and made.state not in ("active", "hibernated"):
            raise PolicyDeniedError(str(made.raw.get("message") or made.state), details={"session_id": made.id, "state": made.state})
        return made

    def get(self, id: str) -> Session:
        """Gets a session; NotFoundError if there is none."""
        return Session(self, self._transport.ask(Ask("GET", path("sessions", id)), "session_id", "state"))

    def use(self, id: str) -> Session:
        """Returns a session by its id, without a request."""
        return Session(self, {"session_id": id, "state": "active", "created": False})

    def list(
        self, *, all: Optional[bool] = None, key_prefix: Optional[str] = None, limit: Optional[int] = None, offset: Optional[int] = None
    ) -> types.SessionPage:
        """Returns a page of the caller's sessions, newest first; with ``all`` also those that have ended."""
        values = {"all": all, "key_prefix": key_prefix, "limit": limit, "offset": offset}
        return cast("types.SessionPage", self._transport.ask(Ask("GET", path("sessions"), values=values)))

    def close(self, id: str) -> None:
        """Ends a session. A second call is not an error."""
        self._transport.ask(Ask("DELETE", path("sessions", id), longer=STARTUP))

    def close_all(self, key_prefix: str, *, retain: Optional[float] = None) -> List[str]:
        """Ends all sessions whose scope begins with ``key_prefix``, such as ``workflow:run_123:``, and returns their ids.

        With ``retain`` they end after that many seconds; until then you can inspect them. :func:`belljar.scope_prefix` makes a prefix.
        """
        body = _spec.given({"key_prefix": key_prefix, "retain_seconds": retain})
        answer = self._transport.ask(Ask("POST", path("sessions", "close"), body, again=True, longer=STARTUP), "closed")
        return cast("list[str]", answer["closed"])


def _shell(cmd: str, separate: bool) -> types.ShellCommand:
    return {"cmd": cmd, "separate": True} if separate else {"cmd": cmd}
