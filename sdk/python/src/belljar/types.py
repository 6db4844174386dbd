# Made from spec/openapi.yaml by scripts/generate.py. Do not edit.
"""What the API takes and answers, as it travels. Servers that are newer may tell more."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict


class AdminPage(TypedDict):
    has_more: bool
    """Whether there are more entries."""
    items: List[AdminRun]
    """The entries."""
    limit: int
    """Most entries on a page."""
    offset: int
    """Entries skipped."""
    total: int
    """Total number of entries."""


class _AdminRun(TypedDict):
    created_at: str
    """When it was accepted."""
    exit_code: Optional[int]
    """Its exit status: 128+n if a signal ended it, null if it never started."""
    finished_at: Optional[str]
    """When it ended."""
    id: str
    """Its id, a UUID."""
    image_digest: Optional[str]
    """Digest that the image's name resolved to."""
    message: Optional[str]
    """What happened, as text."""
    phase: Literal["queued", "starting", "running", "completed", "failed", "killed", "timed_out"]
    """Phase of the run."""
    runtime: str
    """The isolation technology; default: the server's."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command started."""


class AdminRun(_AdminRun, total=False):
    approval: Approval
    """The approval that it needs, or needed, before it may begin; absent if it needs none."""
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is cut: at most 16 KiB are recorded."""
    context: ContextRun
    details: Replay
    """Details."""
    egress: EgressReport
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    env_names: List[str]
    """Names of the request's environment variables, without their values; at most 16 KiB are recorded."""
    estimated_start_time: str
    """Estimated start, while it is queued."""
    failure: RunFailure
    git: GitSource
    """A Git repository whose files the workspace begins with, cloned before the sandbox is made."""
    hint: str
    """What to do next."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """What enforces each limit, or replaces its enforcement; a limit that is not enforced is absent."""
    network: NetworkSpec
    """The network that the request asked for; absent without one, and in a session."""
    packages: PackageLock
    """The installed packages, with all of their dependencies."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure that cannot be measured is absent."""
    resume_from_seq: int
    """Where a stream starts by default (1.1)."""
    runtime_reason: str
    """Why this runtime was chosen."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session's id."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    snapshot_digest: str
    """Digest of the files that its workspace began with, or of the snapshot at /snapshot."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """The owner."""
    warm: bool
    """Whether its interpreter was started in advance; absent if it could not have been."""
    warnings: List[str]
    """Problems that did not end the run."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""


class _Approval(TypedDict):
    expires_at: str
    """When it expires without a decision."""
    fingerprint: str
    """SHA-256 of the request that the decision covers."""
    id: str
    """Its id: that of the run or session."""
    kind: Literal["run", "session"]
    """run or session."""
    reasons: List[str]
    """The rules of SANDBOX_APPROVAL that the request matches, each with the value that the request sets."""
    requested_at: str
    """When it was requested."""
    state: Literal["pending", "approved", "denied", "expired", "withdrawn"]
    """Its state."""
    user_id: str
    """The user who sent the request."""


class Approval(_Approval, total=False):
    base_image: str
    """The image."""
    command: List[str]
    """A run's command, at most its first 16 KiB."""
    command_truncated: bool
    """Whether command is cut: at most 16 KiB are recorded."""
    cpu: float
    """Cores."""
    decided_at: str
    """When it was decided, or ended without a decision."""
    decided_by: str
    """The operator who decided."""
    memory_mb: int
    """Memory in MiB."""
    network: NetworkSpec
    """What the sandbox may reach."""
    note: str
    """The operator's note."""
    session_id: str
    """The session of a run in one."""
    source: str
    """Where the request came from: mcp, cli, rest …."""
    timeout_sec: float
    """Time of the run, or of the session's runs that set none."""


class _ApprovalDecision(TypedDict):
    decision: Literal["approve", "deny"]
    """approve or deny."""


class ApprovalDecision(_ApprovalDecision, total=False):
    note: str
    """Message for the user who sent the request; at most 1000 bytes."""


class ApprovalPage(TypedDict):
    has_more: bool
    """Whether there are more entries."""
    items: List[Approval]
    """The entries."""
    limit: int
    """Most entries on a page."""
    offset: int
    """Entries skipped."""
    total: int
    """Total number of entries."""


class _Artifact(TypedDict):
    path: str
    """Path in the workspace."""
    size: int
    """Size in bytes."""
    type: Literal["file", "link"]
    """What it is."""


class Artifact(_Artifact, total=False):
    digest: str
    """SHA-256 of its tar archive: the same for the same files, names, modes and times."""
    download_url: str
    """URL of its content."""
    link_target: str
    """Target of the link, which is not followed."""
    mode: int
    """Permission bits; default 420 (0644)."""
    skipped: str
    """Why its bytes were not kept."""


class ArtifactList(TypedDict):
    items: List[Artifact]
    """The entries."""


class _BatchFile(TypedDict):
    path: str
    """Path of the file."""


class BatchFile(_BatchFile, total=False):
    contents: str
    """The file as text."""
    contents_b64: str
    """The file as base64, instead of contents."""
    mode: str
    """Permission bits in octal; default: those of the file that is replaced, or 0644."""


class _Build(TypedDict):
    argv: List[str]
    """The compiler and its arguments."""
    duration_sec: float
    """Seconds from its start to its end."""
    exit_code: Optional[int]
    """The compiler's exit status: 128+n if a signal ended it, null while it runs."""
    output: str
    """What the compiler printed, at most 64 KiB; left out of lists."""
    output_encoding: Literal["utf8", "base64"]
    """utf8 or base64."""


class Build(_Build, total=False):
    cached: bool
    """Whether the build of an earlier run was reused."""
    output_truncated: bool
    """Whether the compiler printed more."""
    usage: ResourceUsage
    """What the compiler used, apart from the run's own usage."""


class _Cancellation(TypedDict):
    exit_code: Optional[int]
    """Its exit status: 128+n if a signal ended it, null if it never started."""
    phase: Literal["queued", "starting", "running", "completed", "failed", "killed", "timed_out"]
    """Phase of the run."""
    run_id: str
    """The run's id."""
    status: Literal["canceling", "finished"]
    """What was done: canceling if the run had not ended, finished if it had."""


class Cancellation(_Cancellation, total=False):
    message: str
    """Why it ended, as text."""
    reason_code: str
    """Why it did not simply complete."""


class _Check(TypedDict):
    ok: bool
    """Whether it works."""


class Check(_Check, total=False):
    circuit: Literal["closed", "half-open", "open"]
    """Whether that is asked: open after failures, half-open for an attempt."""
    detail: str
    """Details, as text."""
    state: Literal["ready", "degraded", "down"]
    """State of what a part depends on."""


class Chunk(TypedDict):
    encoding: Literal["utf8", "base64"]
    """Encoding of text."""
    seq: int
    """Its position; seqs increase, with gaps."""
    stream: Literal["stdout", "stderr"]
    """The stream that it was written to."""
    text: str
    """The output."""


class _CloseRequest(TypedDict):
    key_prefix: str
    """Prefix of their scope_key: at least a namespace and its colon; a colon in an id or a key is %3A, and % is %25."""


class CloseRequest(_CloseRequest, total=False):
    retain_seconds: float
    """Seconds to keep them for inspection, without their scope; 0 ends them at once."""


class ClosedSessions(TypedDict):
    closed: List[str]
    """Their ids, the oldest first."""


class Completion(TypedDict):
    matches: List[str]
    """Sorted, at most 200."""
    word: str
    """The end of the code, which each match replaces."""


class _Context(TypedDict):
    created_at: str
    """When it was accepted."""
    language: str
    """python, ipython, javascript or bash."""
    last_used_at: str
    """When its last code ended."""
    name: str
    """Its name in the session."""
    runs: int
    """How many pieces of code its interpreters were given."""
    state: str
    """idle; busy while code is executed; stopped if it has no interpreter now, and the next code starts one."""


class Context(_Context, total=False):
    cwd: str
    """Directory of the workspace in which it started."""


class _ContextCode(TypedDict):
    code: str
    """The code, at most 1 MiB."""


class ContextCode(_ContextCode, total=False):
    capture_patterns: List[str]
    """Files to keep as artifacts, as glob patterns in the workspace."""
    files: List[InlineFile]
    """Files to write into the workspace first."""
    interactive: bool
    """Whether standard input stays open for the caller, as for any run."""
    labels: Dict[str, str]
    """Names and values by which runs are found."""
    language: str
    """python, ipython, javascript or bash; the context is made if it does not exist."""
    replay: bool
    """If the context has lost its interpreter, its earlier code is executed again first, without output."""
    stdin: str
    """The whole standard input."""
    timeout_sec: float
    """Limit for the code, in seconds; default: the session's timeout. It is then interrupted, and the variables stay."""


class ContextList(TypedDict):
    items: List[Context]
    """The entries."""


class ContextPrefix(TypedDict):
    code: str
    """The code up to the place of completion, at most 1 MiB."""


class _ContextRun(TypedDict):
    language: str
    """Its language."""
    name: str
    """Name of the context."""


class ContextRun(_ContextRun, total=False):
    replayed: int
    """How many pieces of earlier code were executed again before this one."""
    state: str
    """kept; replaced if the variables are gone, as it began in a new interpreter or has ended its own; new for the first code since the session hibernated."""


class _ContextSpec(TypedDict):
    language: str
    """python, ipython (Python, with the image's IPython), javascript or bash."""


class ContextSpec(_ContextSpec, total=False):
    cwd: str
    """Directory of the workspace to start in; default: its root."""
    name: str
    """Its name; default: the language."""


class _DeleteFile(TypedDict):
    path: str
    """The file or folder."""


class DeleteFile(_DeleteFile, total=False):
    recursive: bool
    """Whether to delete a folder with its contents."""


class _DetailedRun(TypedDict):
    artifacts: List[Artifact]
    """Files captured from it."""
    created_at: str
    """When it was accepted."""
    exit_code: Optional[int]
    """Its exit status: 128+n if a signal ended it, null if it never started."""
    finished_at: Optional[str]
    """When it ended."""
    id: str
    """Its id, a UUID."""
    image_digest: Optional[str]
    """Digest that the image's name resolved to."""
    message: Optional[str]
    """What happened, as text."""
    phase: Literal["queued", "starting", "running", "completed", "failed", "killed", "timed_out"]
    """Phase of the run."""
    runtime: str
    """The isolation technology; default: the server's."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command started."""


class DetailedRun(_DetailedRun, total=False):
    approval: Approval
    """The approval that it needs, or needed, before it may begin; absent if it needs none."""
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is cut: at most 16 KiB are recorded."""
    context: ContextRun
    details: Replay
    """Details."""
    egress: EgressReport
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    env_names: List[str]
    """Names of the request's environment variables, without their values; at most 16 KiB are recorded."""
    estimated_start_time: str
    """Estimated start, while it is queued."""
    failure: RunFailure
    git: GitSource
    """A Git repository whose files the workspace begins with, cloned before the sandbox is made."""
    hint: str
    """What to do next."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """What enforces each limit, or replaces its enforcement; a limit that is not enforced is absent."""
    network: NetworkSpec
    """The network that the request asked for; absent without one, and in a session."""
    packages: PackageLock
    """The installed packages, with all of their dependencies."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure that cannot be measured is absent."""
    resume_from_seq: int
    """Where a stream starts by default (1.1)."""
    runtime_reason: str
    """Why this runtime was chosen."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session's id."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    snapshot_digest: str
    """Digest of the files that its workspace began with, or of the snapshot at /snapshot."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """The owner."""
    warm: bool
    """Whether its interpreter was started in advance; absent if it could not have been."""
    warnings: List[str]
    """Problems that did not end the run."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""


class _Discovery(TypedDict):
    runtimes: List[RuntimeInfo]
    """Every runtime of the server."""
    store_mode: Literal["memory", "sqlite", "postgres", "redis"]
    """Where records are kept."""
    trust_levels: Dict[str, str]
    """The weakest isolation for each trust level."""


class Discovery(_Discovery, total=False):
    default_trust_level: str
    """The trust level of requests that set none."""


class Egress(TypedDict, total=False):
    cidrs: List[str]
    """Networks: 203.0.113.0/24."""
    hosts: List[str]
    """Hosts: example.com, or *.example.com for every name below it."""
    ips: List[str]
    """Addresses: 203.0.113.7."""
    presets: List[str]
    """Presets, which open the hosts where a tool gets packages: pip, npm, cargo, go, maven, apt, github; those that the server has switched on."""


class _EgressHost(TypedDict):
    allowed: int
    """Connections that were allowed."""
    bytes_in: int
    """Bytes to the sandbox."""
    bytes_out: int
    """Bytes from the sandbox."""
    denied: int
    """Connections and names that were denied."""
    host: str
    """Its name, or its address."""


class EgressHost(_EgressHost, total=False):
    ip: str
    """The address that was connected to last."""
    reason: str
    """Why it was denied: no_match, dns_mismatch, policy_changed, sni_missing, private_address, port_denied, dns_failed, brokered, limit, certificate_unknown, certificate_expired, certificate_name, certificate_invalid; unreachable if it was allowed and did not answer."""
    rule: str
    """The rule that matched."""


class _EgressReport(TypedDict):
    allowed: int
    """Connections that were allowed."""
    bytes_in: int
    """Bytes to the sandbox."""
    bytes_out: int
    """Bytes from the sandbox."""
    denied: int
    """Connections and names that were denied."""
    hosts: List[EgressHost]
    """The hosts, at most 100."""


class EgressReport(_EgressReport, total=False):
    presets: List[NetworkPreset]
    """The presets of the request, with their indexes and hosts."""


class _Error(TypedDict):
    code: Literal["invalid_request", "invalid_spec_version", "unauthorized", "forbidden", "not_found", "idempotency_conflict", "conflict", "precondition_failed", "rate_limited", "quota_exceeded", "policy_denied", "timeout", "canceled", "payload_too_large", "path_escapes", "runtime_unavailable", "image_unavailable", "image_invalid", "disk_full", "internal"]
    """Error code."""
    message: str
    """What went wrong, as text."""


class Error(_Error, total=False):
    details: Dict[str, Any]
    """Details, by code: field, offset, supported …."""
    hint: str
    """What to do next."""


class ErrorDetail(TypedDict, total=False):
    location: str
    """Where the error occurred, e.g. 'body.items[3].tags' or 'path.thing-id'."""
    message: str
    """Error message text."""
    value: Any
    """The value at the given location."""


class _Exec(TypedDict):
    cmd: List[str]
    """The program and its arguments; no shell is involved."""


class Exec(_Exec, total=False):
    cpu_time_sec: float
    """CPU seconds that all its processes may use in total; default: the session's limit."""
    cwd: str
    """Working directory, in the workspace; default: /workspace."""
    env: Dict[str, str]
    """Environment variables; they override the session's."""
    stdin: str
    """The command's whole standard input."""
    stream: bool
    """Answer as soon as the command is accepted; its output is read by exec_id."""
    timeout_seconds: float
    """Limit for the command, in seconds; default: the session's timeout."""
    wait_seconds: float
    """How long to wait for the end before answering, in seconds; default: as long as the server allows (10 minutes). If the wait ends first, the status is running."""


class _ExecCanceled(TypedDict):
    exec_id: str
    """The exec's id."""
    status: Literal["canceling", "finished"]
    """canceling if it had not ended, finished if it had."""


class ExecCanceled(_ExecCanceled, total=False):
    exit_code: int
    """Its exit status, once it has ended: 128+n if a signal ended it, 125 if it never started."""
    hint: str
    """What to do next."""
    message: str
    """What happened, as text."""
    reason_code: str
    """Why it did not simply complete."""
    signal: str
    """The signal that ended it."""
    timed_out: bool
    """Whether it was ended by its timeout."""


class _ExecOutput(TypedDict):
    chunks: List[Chunk]
    """The output, in order."""
    done: bool
    """Whether it has ended and nothing follows these chunks."""
    next_seq: int
    """The since_seq of the next request."""


class ExecOutput(_ExecOutput, total=False):
    exit_code: int
    """Its exit status, once it has ended: 128+n if a signal ended it, 125 if it never started."""
    hint: str
    """What to do next."""
    message: str
    """What happened, as text."""
    reason_code: str
    """Why it did not simply complete."""
    signal: str
    """The signal that ended it."""
    timed_out: bool
    """Whether it was ended by its timeout."""
    truncated: bool
    """Whether output is missing after since_seq: the log was cut at its cap, or removed."""


class ExecWait(TypedDict, total=False):
    timeout_seconds: float
    """How long to wait, in seconds; default: as long as the server allows (10 minutes)."""


class _ExecWaited(TypedDict):
    done: bool
    """Whether it has ended."""


class ExecWaited(_ExecWaited, total=False):
    exit_code: int
    """Its exit status, once it has ended: 128+n if a signal ended it, 125 if it never started."""
    hint: str
    """What to do next."""
    message: str
    """What happened, as text."""
    reason_code: str
    """Why it did not simply complete."""
    signal: str
    """The signal that ended it."""
    timed_out: bool
    """Whether it was ended by its timeout."""


class _Executed(TypedDict):
    exec_id: str
    """The run's id, which the routes of runs accept, too."""
    sandbox_id: str
    """The session's id."""
    status: Literal["completed", "running"]
    """completed once it has ended, whatever the outcome."""


class Executed(_Executed, total=False):
    details: Replay
    """Outcome of the request's Idempotency-Key."""
    duration_ms: int
    """Milliseconds from the command's start to its end."""
    exit_code: int
    """Its exit status, once it has ended: 128+n if a signal ended it, 125 if it never started."""
    hint: str
    """What to do next."""
    message: str
    """What happened, as text."""
    reason_code: str
    """Why it did not simply complete."""
    results: List[Result]
    """What code in a context has shown, at most 4 MiB together."""
    results_truncated: bool
    """Whether results were left out."""
    signal: str
    """The signal that ended it."""
    stderr: str
    """Its standard error, if the caller waited for its end."""
    stderr_encoding: Literal["utf8", "base64"]
    """Encoding of stderr."""
    stderr_omitted_at: int
    """Offset in the stream at which bytes are missing."""
    stderr_omitted_bytes: int
    """Number of bytes missing there."""
    stderr_truncated: bool
    """Whether some of stderr is missing."""
    stdout: str
    """Its standard output, if the caller waited for its end."""
    stdout_encoding: Literal["utf8", "base64"]
    """Encoding of stdout."""
    stdout_omitted_at: int
    """Offset in the stream at which bytes are missing."""
    stdout_omitted_bytes: int
    """Number of bytes missing there."""
    stdout_truncated: bool
    """Whether some of stdout is missing."""
    timed_out: bool
    """Whether it was ended by its timeout."""


class Failure(TypedDict):
    error: Error
    """What went wrong."""


class _FailureFrame(TypedDict):
    file: str
    """The file, below the workspace as far as that is known."""


class FailureFrame(_FailureFrame, total=False):
    column: int
    """From 1, in the units of the language's traces."""
    function: str
    """The function."""
    line: int
    """From 1."""
    skipped: str
    """Why this is no place of the program's own: runtime, package, inline or elsewhere; absent if it is one."""


class FileDeleted(TypedDict):
    deleted: str
    """Absolute path of the deleted file or folder."""
    ok: bool
    """true."""


class FileDone(TypedDict):
    ok: bool
    """true."""
    path: str
    """Absolute path in the sandbox."""


class _FileEntry(TypedDict):
    mode: str
    """Permission bits in octal."""
    mtime_unix: int
    """Time of the last change, in seconds since 1970."""
    path: str
    """Path, relative to the workspace."""
    size: int
    """Size in bytes."""
    type: str
    """file, dir, symlink or other."""


class FileEntry(_FileEntry, total=False):
    etag: str
    """The SHA-256 of the content in hexadecimal, in quotes. A write of more than 8 MiB returns none."""
    target: str
    """Target of a link, which is not followed."""


class FileList(TypedDict):
    entries: List[FileEntry]
    """The entries of the folder."""
    truncated: bool
    """Whether there are more."""


class _FileMatch(TypedDict):
    path: str
    """Path, relative to the workspace."""


class FileMatch(_FileMatch, total=False):
    line: int
    """Number of the line, from 1."""
    text: str
    """The line, or 500 bytes of it around the match."""


class FileMatches(TypedDict):
    files_searched: int
    """Number of files searched."""
    matches: List[FileMatch]
    """The matches, by path and line."""
    truncated: bool
    """Whether the search stopped at a limit, or skipped the rest of a very long file or line."""


class FileSearch(TypedDict, total=False):
    content: str
    """Text to find in a line, at most 1024 bytes."""
    ignore_case: bool
    """Whether content matches regardless of case."""
    max_results: int
    """Most matches; default 100, at most 1000."""
    name: str
    """A glob: without a slash, it matches names at any depth (*.go); with one, paths relative to path (src/**/*.ts)."""
    path: str
    """The folder to search; default: the workspace."""
    regexp: bool
    """Whether content is a regular expression (RE2)."""


class FileStored(TypedDict):
    entry: FileEntry
    """The file as it is now."""
    ok: bool
    """true."""
    path: str
    """Absolute path in the sandbox."""


class _FileText(TypedDict):
    size_bytes: int
    """Size of the whole file."""
    truncated: bool
    """Whether the file has more bytes."""


class FileText(_FileText, total=False):
    contents: str
    """The content, if it is valid UTF-8. A character that max_bytes would cut is left for the next read."""
    contents_b64: str
    """The content as base64, if it is not valid UTF-8."""
    etag: str
    """The ETag of the file, if this is the whole: the SHA-256 of its content in hexadecimal, in quotes. The header ETag has it, too."""
    next_offset: int
    """Offset of the next read, if the file has more bytes."""


class FileWritten(TypedDict):
    etag: str
    """The ETag of the file: the SHA-256 of its content in hexadecimal, in quotes. The header ETag has it, too."""
    ok: bool
    """true."""
    path: str
    """Absolute path in the sandbox."""


class FilesStored(TypedDict):
    entries: List[FileEntry]
    """The files as they are now."""
    ok: bool
    """true."""


class _Fork(TypedDict):
    consistent: bool
    """Whether no program could change a file while the files were read."""
    sessions: List[Session]
    """The copies."""
    shell: bool
    """Whether they have the directory, variables and functions of the session's shell."""


class Fork(_Fork, total=False):
    omitted: List[str]
    """Variables and functions of the shell that have the value of a secret, and were left out."""


class ForkRequest(TypedDict, total=False):
    count: int
    """How many copies, 1 to 32; 1 by default."""
    live: bool
    """Copies with memory and processes, too; as in create-snapshot."""


class _Frame(TypedDict):
    seq: int
    """Position in the run's log, from 1 without a gap."""
    type: Literal["stdout", "stderr", "result", "event", "heartbeat", "truncated"]
    """What the frame carries."""


class Frame(_Frame, total=False):
    """One entry of a run's log."""

    data: Any
    """Output as a string, a result as a line of JSON or a piece of one, whose last piece ends with a newline, or an event's object."""
    encoding: Literal["utf8", "base64"]
    """Encoding of data, in stdout, stderr and result."""
    event: Literal["phase", "start", "end", "error", "egress", "git", "approval", "packages", "build_start", "build_end", "resume", "stdin_closed"]
    """Which event."""
    reason: str
    """Why the log was cut."""
    step: Literal["build"]
    """build if the compiler wrote the output."""
    ts: str
    """Time of a heartbeat."""


class _GitSource(TypedDict):
    url: str
    """Its address."""


class GitSource(_GitSource, total=False):
    commit: str
    """The commit's whole hash."""
    ignored: int
    """How many files were left out, as the repository's .dockerignore says."""
    ref: str
    """What was asked for."""


class _GitSpec(TypedDict):
    url: str
    """Its https address, host[:port]/path, without a user or password."""


class GitSpec(_GitSpec, total=False):
    depth: int
    """How many commits of history are cloned; 1 by default."""
    keep_git: bool
    """Keep .git, with the commit checked out."""
    keep_ignored: bool
    """Keep what the repository's .dockerignore names."""
    patch: str
    """A unified diff for the files of the repository; at most 1 MiB."""
    ref: str
    """A branch, a tag, or a commit by its whole hash; unset, the repository's own branch."""
    secret: str
    """The name of one of the request's secrets, for a repository that is not public; it goes to the repository's host alone."""
    subdir: str
    """The folder of the repository that becomes the workspace."""


class Health(TypedDict):
    status: Literal["ok"]
    """ok."""


class HibernateRequest(TypedDict, total=False):
    force: bool
    """Whether to end what runs in the session; else it is refused while something does."""


class _Hibernation(TypedDict):
    live: bool
    """Whether that is its memory, processes and all files, with the variables of its contexts; else it is the files of its workspace and the state of its shell."""


class Hibernation(_Hibernation, total=False):
    reason: str
    """Why it is not live."""


class _Image(TypedDict):
    bytes: int
    """Size of its files, unpacked."""
    config: ImageConfig
    """Its settings for programs."""
    digest: str
    """sha256: and the digest of its manifest for this platform; empty for host."""
    layers: int
    """Number of its layers."""
    names: List[str]
    """All its names, as they were set."""
    ref: str
    """Its first name: host, or a full reference such as docker.io/library/python:3.11-slim."""
    runtime: str
    """The runtime whose engine stores it; empty if it is in Belljar's own store, for every runtime that can use that."""
    source: Literal["pull", "import", "build", "host", "engine"]
    """pull, import, build, host or engine."""


class Image(_Image, total=False):
    added_at: str
    """When it was added to this server."""
    created_at: str
    """When it was made, according to the image."""
    in_use: bool
    """Whether a sandbox uses it now."""
    last_used_at: str
    """When a sandbox last used it, to the minute."""
    platform: str
    """Such as linux/amd64."""


class ImageConfig(TypedDict, total=False):
    cmd: List[str]
    """For information only."""
    entrypoint: List[str]
    """For information only: a request's command is not prefixed with it."""
    env: List[str]
    """NAME=value; a request's env overrides it."""
    labels: Dict[str, str]
    """Names and values that its author set."""
    user: str
    """The user that programs run as, unless it is root."""
    working_dir: str
    """Working directory of commands by default, if it exists."""


class ImageList(TypedDict):
    items: List[Image]
    """The entries."""


class _ImageProgress(TypedDict):
    done: int
    """Bytes so far."""
    phase: Literal["resolving", "pulling", "unpacking", "done"]
    """resolving, pulling, unpacking or done."""


class ImageProgress(_ImageProgress, total=False):
    layer: str
    """Digest of the layer that this concerns; absent for the whole image."""
    shared: bool
    """Whether the layer was already stored."""
    total: int
    """Bytes in total; absent if unknown."""


class ImagePrune(TypedDict, total=False):
    all: bool
    """Remove every image that is not in use."""
    keep_bytes: int
    """Remove the least recently used images until the rest has at most so many bytes."""
    unused_sec: float
    """Remove images that no sandbox has used for so many seconds."""


class ImagePruned(TypedDict):
    bytes: int
    """Bytes freed."""
    images: List[str]
    """Digests of the removed images."""


class _ImagePull(TypedDict):
    ref: str
    """The image, such as python:3.11-slim."""


class ImagePull(_ImagePull, total=False):
    always: bool
    """Whether to resolve the name at the registry again, even if an image of that name is stored."""
    runtime: str
    """The runtime whose engine is to store it; default: Belljar's own store. Operators only."""


class ImageTag(TypedDict):
    name: str
    """Its new name."""
    ref: str
    """The image, by a name or its digest."""


class _InlineFile(TypedDict):
    content_b64: str
    """The file's bytes, base64."""
    path: str
    """Path in the workspace."""


class InlineFile(_InlineFile, total=False):
    mode: int
    """Permission bits; default 420 (0644)."""


class KeyEntry(TypedDict):
    created_at: str
    """When it was accepted."""
    endpoint: str
    """runs or sessions."""
    key: str
    """The key."""
    object_id: str
    """Id of the object that it made."""
    user_key: str
    """Owner of the key."""


class KeyList(TypedDict):
    items: List[KeyEntry]
    """The entries."""


class _Limits(TypedDict):
    artifact_mb: int
    """MiB of artifacts in total."""
    build_timeout_sec: float
    """Limit for the compiler, in seconds."""
    cpu: float
    """Cores; 0.5 is half a core."""
    grace_sec: float
    """Between TERM and KILL."""
    inodes: int
    """Files on each writable file system."""
    log_bytes: int
    """Bytes of output kept; the rest is counted and dropped."""
    memory_mb: int
    """MiB of memory for the programs."""
    nofile: int
    """Open files per process."""
    nproc: int
    """Processes of the user."""
    pids: int
    """Processes and threads at once."""
    startup_timeout_sec: float
    """Limit for making the sandbox, in seconds."""
    timeout_sec: float
    """Limit for the command, in seconds."""
    tmp_mb: int
    """MiB of /tmp."""
    workspace_mb: int
    """MiB of /workspace."""


class Limits(_Limits, total=False):
    build_memory_mb: int
    """Memory limit of the compiler in MiB; default: memory_mb."""
    cpu_time_sec: float
    """CPU seconds that all its processes may use in total; not for shell commands."""


class ListFiles(TypedDict, total=False):
    limit: int
    """Most entries; default 1000, at most 10000."""
    path: str
    """The folder; default: the workspace."""
    recursive: bool
    """Whether to list its subfolders, too."""


class _MakeFolder(TypedDict):
    path: str
    """The folder. Parent folders are created; an existing folder is not an error."""


class MakeFolder(_MakeFolder, total=False):
    mode: str
    """Permission bits in octal; default 0755."""


class _Me(TypedDict):
    limits: Limits
    """The limits in force; cpu, memory_mb and pids are 0 if they are not enforced."""
    max_limits: Limits
    """The largest limits that a request may set."""
    policy: Dict[str, Any]
    """The policy in force, by setting."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    quota: Quota
    """The caller's quota."""
    role: Literal["user", "admin"]
    """The caller's role."""
    used: Used
    """How much of it is used."""
    user_id: str
    """The caller."""


class Me(_Me, total=False):
    max_ttl_sec: float
    """The largest ttl_sec that a session may set."""


class _NetworkCheck(TypedDict):
    allowed: bool
    """Whether a program could connect to it."""
    host: str
    """Its host."""
    message: str
    """The answer and the reason, as text."""
    port: int
    """Its port."""
    url: str
    """The URL."""


class NetworkCheck(_NetworkCheck, total=False):
    addresses: List[str]
    """The addresses that the host has now."""
    reason: str
    """Why not, as in a run's egress."""
    rule: str
    """The rule that matched."""


class _NetworkPreset(TypedDict):
    enabled: bool
    """Whether the server has it switched on."""
    name: str
    """Its name."""


class NetworkPreset(_NetworkPreset, total=False):
    hint: str
    """What to do about that."""
    hosts: List[str]
    """The hosts that programs may reach with it."""
    indexes: List[str]
    """Addresses of what the tool asks."""
    learnt_at: str
    """When that was found out."""
    reason: str
    """Why it cannot be used."""
    source: str
    """Source of the indexes: mirror (the operator's setting) or image (the tool's own setting)."""


class _NetworkQuery(TypedDict):
    url: str
    """The URL, or a host alone."""


class NetworkQuery(_NetworkQuery, total=False):
    egress: Egress
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    network_policy: str
    """deny_all, or allowlist: what egress lists."""
    session_id: str
    """The session that would connect; without one, network_policy and egress apply."""


class _NetworkSpec(TypedDict):
    network_policy: str
    """deny_all, or allowlist: what egress lists."""


class NetworkSpec(_NetworkSpec, total=False):
    egress: Egress
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""


class _NewToken(TypedDict):
    created_at: str
    """When it was accepted."""
    id: str
    """Its id, a UUID."""
    prefix: str
    """The key's first characters."""
    role: Literal["user", "admin"]
    """The caller's role."""
    secret: str
    """The key itself; returned once, when it is made."""
    user_id: str
    """The owner."""


class NewToken(_NewToken, total=False):
    expires_at: str
    """When it expires; absent is never."""
    last_used_at: str
    """Time of its last use, to the minute."""
    name: str
    """What it is for."""
    revoked_at: str
    """When it was revoked."""


class _OpenedSession(TypedDict):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    created: bool
    """Whether this request made it; an existing session is returned unchanged."""
    created_at: str
    """When it was accepted."""
    expires_at: str
    """When it ends if it is not used."""
    image: str
    """The same as base_image."""
    limits: Limits
    """The limits in force; cpu, memory_mb and pids are 0 if they are not enforced."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    runtime: str
    """The isolation technology; default: the server's."""
    sandbox_id: str
    """The same as session_id."""
    session_id: str
    """The session's id."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    state: Literal["starting", "active", "hibernated", "closed", "expired", "crashed", "lost"]
    """State of the session."""
    workdir: str
    """Working directory of its runs, and folder of its files."""


class OpenedSession(_OpenedSession, total=False):
    approval: Approval
    """The approval that it needs, or needed, before it may begin; absent if it needs none."""
    cwd: str
    """Working directory of its shell, after the shell's first command."""
    details: Replay
    """Details."""
    git: GitSource
    """A Git repository whose files the workspace begins with, cloned before the sandbox is made."""
    hibernated: Hibernation
    """What it comes back with from hibernation, or came back with last; absent for one that has never hibernated, or has ended."""
    image_digest: str
    """Digest that the image's name resolved to."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    last_activity_at: str
    """Time of its last activity."""
    limits_enforced: Dict[str, str]
    """What enforces each limit, or replaces its enforcement; a limit that is not enforced is absent."""
    message: str
    """What happened, as text."""
    packages: PackageLock
    """The installed packages, with all of their dependencies."""
    presets: List[NetworkPreset]
    """Presets, which open the hosts where a tool gets packages: pip, npm, cargo, go, maven, apt, github; those that the server has switched on."""
    runs: int
    """How many runs were started in it."""
    runtime_reason: str
    """Why this runtime was chosen."""
    runtime_version: str
    """Its version."""
    scope_key: str
    """Its scope as namespace:id:key, % and : in the parts as %25 and %3A."""
    snapshot_digest: str
    """Digest of the files that its workspace began with, or of the snapshot at /snapshot."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    user_id: str
    """The owner."""
    warnings: List[str]
    """Rules of its network of which the server's rules allow nothing, and what the clone of its repository left out or changed."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""


class _Package(TypedDict):
    name: str
    """Its name."""
    version: str
    """Its version."""


class Package(_Package, total=False):
    hash: str
    """Digest of the file that it came in."""


class PackageLock(TypedDict, total=False):
    npm: List[Package]
    """Of Node."""
    pip: List[Package]
    """Of Python."""


class Packages(TypedDict, total=False):
    apt: List[str]
    """Refused: Debian's packages belong into an image."""
    build: bool
    """Allow packages to run their build scripts when they are installed."""
    npm: List[str]
    """Packages for Node: names, with versions."""
    pip: List[str]
    """Requirements for Python: names, with extras and versions."""
    refresh: bool
    """Look for newer versions now."""


class _Port(TypedDict):
    address: str
    """The address that the program listens on: 127.0.0.1, 0.0.0.0, ::1 or ::."""
    port: int
    """Its number."""


class Port(_Port, total=False):
    pid: int
    """Its process in the sandbox."""
    program: str
    """The name that the program gives itself; absent if it cannot be seen."""


class PortList(TypedDict):
    items: List[Port]
    """The entries."""


class PresetList(TypedDict):
    items: List[NetworkPreset]
    """The entries."""


class _Preview(TypedDict):
    created_at: str
    """When it was accepted."""
    expires_at: str
    """When it ends if it is not used."""
    label: str
    """The first part of its host name."""
    port: int
    """The port that browsers reach."""
    public: bool
    """Whether it needs no token."""
    session_id: str
    """The session's id."""


class Preview(_Preview, total=False):
    token: str
    """The token of a private preview; only in the answer that creates it."""
    token_url: str
    """Its address with the token, to be opened first; only in the answer that creates it."""
    url: str
    """Its address."""


class PreviewList(TypedDict):
    items: List[Preview]
    """The entries."""


class _PreviewSpec(TypedDict):
    port: int
    """The port that browsers reach."""


class PreviewSpec(_PreviewSpec, total=False):
    public: bool
    """Whether it needs no token; if the server allows that."""
    ttl_sec: float
    """Its life, at most 604800; 3600 if it is not given."""


class Problem(TypedDict):
    detail: str
    """What went wrong, as text."""
    extensions: Dict[str, Any]
    """The code, the hint and the details."""
    status: int
    """The HTTP status."""
    title: str
    """The code, as text."""
    type: str
    """urn:belljar:error: and the code."""


class _Quota(TypedDict):
    artifact_mb: int
    """MiB of artifacts, snapshots and volumes on disk kept at once; 0 is no limit."""
    concurrent_runs: int
    """Runs at once; in a quota, 0 is no limit."""
    cpu_seconds_per_day: float
    """CPU seconds per day; 0 is no limit."""
    own: bool
    """Whether the user has a quota of their own rather than the default."""


class Quota(_Quota, total=False):
    cpu: float
    """Cores that sandboxes may use together; 0 is no limit."""
    egress_mb_per_day: int
    """MiB over the network per day; 0 is no limit."""
    log_mb: int
    """MiB of logs kept at once; 0 is no limit."""
    memory_mb: int
    """MiB that sandboxes may use together, files in memory and runs in the queue included; 0 is no limit."""


class QuotaSpec(TypedDict, total=False):
    artifact_mb: int
    """MiB of artifacts, snapshots and volumes on disk kept at once; 0 is no limit."""
    concurrent_runs: int
    """Runs at once; in a quota, 0 is no limit."""
    cpu: float
    """Cores that sandboxes may use together; 0 is no limit."""
    cpu_seconds_per_day: float
    """CPU seconds per day; 0 is no limit."""
    egress_mb_per_day: int
    """MiB over the network per day; 0 is no limit."""
    log_mb: int
    """MiB of logs kept at once; 0 is no limit."""
    memory_mb: int
    """MiB that sandboxes may use together, files in memory and runs in the queue included; 0 is no limit."""
    own: bool
    """Ignored, so that an answer can be sent back."""


class _ReadFile(TypedDict):
    path: str
    """The file."""


class ReadFile(_ReadFile, total=False):
    max_bytes: int
    """Most bytes to read; default 262144, at most 8388608."""
    offset: int
    """Bytes to skip."""


class Readiness(TypedDict):
    checks: Dict[str, Check]
    """One check per part."""
    status: Literal["ready", "not_ready"]
    """Status of the server as a whole."""


RenameFile = TypedDict("RenameFile", {"from": str, "overwrite": bool, "to": str}, total=False)


class Replay(TypedDict):
    idempotency_key_echo: str
    """The request's Idempotency-Key."""
    idempotency_status: Literal["created", "replayed"]
    """Whether this request made the object (created) or repeats an earlier one (replayed)."""


class _ResourceUsage(TypedDict):
    artifact_bytes: int
    """Bytes of artifacts."""
    log_bytes: int
    """Bytes printed."""
    wall_time_sec: float
    """Seconds from the command's start to its end."""


class ResourceUsage(_ResourceUsage, total=False):
    cpu_time_sec: float
    """CPU seconds of all processes."""
    file_mb: float
    """MiB that files in memory held at the end."""
    limits: Limits
    """The limits in force; cpu, memory_mb and pids are 0 if they are not enforced."""
    max_open_files: int
    """Most open files at once."""
    peak_file_mb: float
    """Most MiB that files in memory held at once."""
    peak_rss_mb: float
    """Most MiB of memory that programs held at once."""
    pids: int
    """Most processes and threads at once."""
    sources: Dict[str, str]
    """Source of each figure."""


class Resources(TypedDict, total=False):
    artifact_mb: int
    """MiB of artifacts in total."""
    cpu: float
    """Cores; 0.5 is half a core."""
    log_bytes: int
    """Bytes of output kept; the rest is counted and dropped."""
    memory_mb: int
    """MiB of memory for the programs."""
    nofile: int
    """Open files per process."""
    nproc: int
    """Processes of the user."""
    pids: int
    """Processes and threads at once."""
    workspace_mb: int
    """MiB of /workspace."""


class _Result(TypedDict):
    type: str
    """value (of the last expression), display, error, input (it asks for a line of standard input) or cut (further results were dropped)."""


class Result(_Result, total=False):
    count: int
    """Number of the code in its context."""
    data: Dict[str, Any]
    """Representations by MIME type: JSON types as JSON values, others as text, or in base64 unless they are text or SVG."""
    frames: List[ResultFrame]
    """Where the error passed, outermost first."""
    name: str
    """Name of the error."""
    password: bool
    """Whether the input is not to be shown."""
    prompt: str
    """What the input is for."""
    text: str
    """Why results were dropped."""
    traceback: str
    """The error as its language prints it."""
    value: str
    """Text of the error."""


class _ResultFrame(TypedDict):
    file: str
    """The file, or the number of the code."""
    line: int
    """The line in it."""


class ResultFrame(_ResultFrame, total=False):
    function: str
    """The function."""
    source: str
    """The line's text."""


class ResultList(TypedDict):
    items: List[Result]
    """The entries."""
    truncated: bool
    """Whether results may be missing, because the log was cut."""


class _Run(TypedDict):
    created_at: str
    """When it was accepted."""
    exit_code: Optional[int]
    """Its exit status: 128+n if a signal ended it, null if it never started."""
    finished_at: Optional[str]
    """When it ended."""
    id: str
    """Its id, a UUID."""
    phase: Literal["queued", "starting", "running", "completed", "failed", "killed", "timed_out"]
    """Phase of the run."""
    runtime: str
    """The isolation technology; default: the server's."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command started."""


class Run(_Run, total=False):
    approval: Approval
    """The approval that it needs, or needed, before it may begin; absent if it needs none."""
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is cut: at most 16 KiB are recorded."""
    context: ContextRun
    """The context in which its code was executed."""
    details: Replay
    """Details."""
    egress: EgressReport
    """What left the sandbox while the run lasted, and what was denied."""
    env_names: List[str]
    """Names of the request's environment variables, without their values; at most 16 KiB are recorded."""
    estimated_start_time: str
    """Estimated start, while it is queued."""
    failure: RunFailure
    """What the output of a failed run says about the reason; absent in lists, and if it says nothing."""
    git: GitSource
    """The repository that the workspace began with."""
    hint: str
    """What to do next."""
    image_digest: str
    """Digest that the image's name resolved to."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """What enforces each limit, or replaces its enforcement; a limit that is not enforced is absent."""
    message: str
    """What happened, as text."""
    network: NetworkSpec
    """The network that the request asked for; absent without one, and in a session."""
    packages: PackageLock
    """The installed packages, with all of their dependencies."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure that cannot be measured is absent."""
    resume_from_seq: int
    """Where a stream starts by default (1.1)."""
    runtime_reason: str
    """Why this runtime was chosen."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session that it ran in."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    snapshot_digest: str
    """Digest of the files that its workspace began with, or of the snapshot at /snapshot."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """The owner."""
    warm: bool
    """Whether its interpreter was started in advance; absent if it could not have been."""
    warnings: List[str]
    """Problems that did not end the run."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""


class _RunFailure(TypedDict):
    frames: List[FailureFrame]
    """The stack from the failure outwards, at most 20 frames."""
    language: str
    """python, node, go, java, c, rust, typescript, ruby or shell."""


class RunFailure(_RunFailure, total=False):
    message: str
    """Its message, at most 1 KiB."""
    type: str
    """The exception's type, panic, or error for a compiler's message."""


class RunPage(TypedDict):
    has_more: bool
    """Whether there are more entries."""
    items: List[Run]
    """The entries."""
    limit: int
    """Most entries on a page."""
    offset: int
    """Entries skipped."""
    total: int
    """Total number of entries."""


class _RunSpec(TypedDict):
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""


class RunSpec(_RunSpec, total=False):
    allow_weak: List[str]
    """Protections that may be missing on this host; operators only."""
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build_cache: bool
    """Whether to reuse an earlier build of the same user with the same source, files, environment, compiler and image."""
    build_memory_mb: int
    """Memory limit of the compiler in MiB; default: memory_mb."""
    build_timeout_sec: float
    """Limit for the compiler, in seconds."""
    capture_patterns: List[str]
    """Globs of the files to keep as artifacts, such as out/**/*.csv."""
    code: str
    """A program's source, instead of command."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    context: str
    """The session's context to execute code in; with language, it is made if it does not exist."""
    cpu_time_sec: float
    """CPU seconds that all its processes may use in total; not for shell commands."""
    cwd: str
    """Working directory, in the workspace; default: its root."""
    egress: Egress
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    env: Dict[str, str]
    """Environment variables."""
    files: List[InlineFile]
    """Small files to write to the workspace, at most 1 MiB in total."""
    git: GitSpec
    """A Git repository whose files the workspace begins with, cloned before the sandbox is made."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """The weakest class of isolation to accept; if runtime is unset, the fastest runtime of that class or stronger is chosen."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    language: str
    """Language of code, or of the file that command starts with: python, node, c …."""
    network_policy: str
    """deny_all, or allowlist: what egress lists."""
    packages: Packages
    """Packages to install first, for the sandbox to read below /packages."""
    replay: bool
    """If the context has lost its interpreter, its earlier code is executed again first, without output."""
    resources: Resources
    """Limits; unset ones are the server's defaults."""
    resume_from_seq: int
    """Where a stream starts by default (1.1)."""
    runtime: str
    """The isolation technology; default: the server's."""
    secrets: Dict[str, Secret]
    """Files that programs find in /run/secrets, or headers for a host, by name; in a session, they are the session's."""
    session_id: str
    """The session to run in, instead of base_image."""
    shell: ShellCommand
    snapshot: str
    """Id of the snapshot that the run reads at /snapshot; not in a session."""
    startup_timeout_sec: float
    """Limit for making the sandbox, in seconds."""
    stdin: str
    """The command's whole standard input."""
    stdin_bps: int
    """Most bytes of input a second (1.1)."""
    stdin_idle_timeout_sec: float
    """Seconds without input after which the input is closed (1.1)."""
    stdin_max_bytes: int
    """Most bytes of input in total (1.1)."""
    stdin_max_frame_bytes: int
    """Most bytes of one input frame (1.1)."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    timeout_sec: float
    """Limit for the command, in seconds."""
    trust_level: str
    """How far the program is trusted; the policy sets the weakest isolation for each level."""
    warm: str
    """auto uses an interpreter that was started in advance, if one waits; off starts one; default: auto."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""
    workspace_exec: bool
    """Whether programs in the workspace may be executed."""


class _RuntimeInfo(TypedDict):
    artifact_ttl_hours: int
    """How long logs and artifacts are kept."""
    available: bool
    """Whether it works on this host."""
    default: bool
    """Whether it is used by default."""
    default_images: List[str]
    """Images that are available."""
    disk_workspace_cap_mb: int
    """MiB of the largest workspace on disk; 0 if there can be none."""
    disk_workspaces: bool
    """Whether a workspace can be on disk."""
    egress_allowlist_supported: bool
    """Whether network_policy allowlist works."""
    host_image: bool
    """Whether the image host can be used."""
    implementation_state: Literal["supported", "host_gated", "scaffold", "unsupported"]
    """Whether it is implemented and supported on this host."""
    interactive_supported: bool
    """Whether interactive runs work."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    max_cpu: float
    """Most cores that a request may set."""
    max_log_bytes: int
    """Most output that is kept."""
    max_mem_mb: int
    """Most MiB of memory that a request may set."""
    max_upload_depth: int
    """Most folders above a file of an upload."""
    max_upload_files: int
    """Most files of an upload."""
    max_upload_mb: int
    """Most MiB of an upload."""
    name: str
    """Its name."""
    notes: Optional[str]
    """Anything else."""
    own_images: bool
    """Whether its engine has its own images."""
    pause: bool
    """Whether sandboxes can be paused."""
    queue_max_length: int
    """Runs that can wait."""
    queue_ttl_sec: int
    """How long a run may wait."""
    snapshots: bool
    """Whether sandboxes can be saved."""
    supported_spec_versions: List[str]
    """Versions of requests."""
    unpacked_images: bool
    """Whether images of Belljar's store can be used."""
    workspace_cap_mb: int
    """Most MiB of a workspace."""


class RuntimeInfo(_RuntimeInfo, total=False):
    agent_uid: str
    """separate: programs run as another user than Belljar's agent; shared: as the same user."""
    disk_workspaces_reason: RuntimeReason
    """Why a workspace cannot be on disk; absent if it can."""
    limits_enforced: Dict[str, str]
    """What enforces each limit, or replaces its enforcement; a limit that is not enforced is absent."""
    oci_runtime: str
    """The OCI runtime of the engine."""
    oom_scope: str
    """What is killed at the memory limit: process is one process, sandbox is all of them."""
    protections: List[RuntimeProtection]
    """Every protection and limit, including those that this host cannot enforce."""
    reasons: List[RuntimeReason]
    """Why it does not work here."""
    rootless: bool
    """Whether it works without root."""
    version: str
    """Its version."""


class _RuntimeProtection(TypedDict):
    enforced: bool
    """Whether this host enforces it."""
    name: str
    """Its name."""


class RuntimeProtection(_RuntimeProtection, total=False):
    by: str
    """What enforces it on this host."""
    hint: str
    """What to do next."""
    weaker: str
    """What is weaker than the runtime's best mechanism."""


class _RuntimeReason(TypedDict):
    code: str
    """Reason code."""
    detail: str
    """Details, as text."""


class RuntimeReason(_RuntimeReason, total=False):
    hint: str
    """What to do next."""
    step: str
    """The step that failed."""


class _Scope(TypedDict):
    id: str
    """Id of the workflow run, the agent run, the user or the thread."""
    namespace: str
    """workflow, agent, user or thread."""


class Scope(_Scope, total=False):
    key: str
    """The session's name in it; default: default. isolated makes a new session each time."""


Secret = TypedDict("Secret", {"from": str, "header": str, "host": str, "template": str, "value": str}, total=False)


class SecretList(TypedDict):
    items: List[StoredSecret]
    """The entries."""


class _SecretSpec(TypedDict):
    value: str
    """Text of 8 bytes to 64 KiB."""


class SecretSpec(_SecretSpec, total=False):
    shared: bool
    """Whether every user may use it; operators only."""


class Series(TypedDict):
    labels: Dict[str, str]
    """The labels of the metric."""
    value: float
    """What was counted or measured; seconds in metrics whose names have seconds."""


class _Session(TypedDict):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    created_at: str
    """When it was accepted."""
    expires_at: str
    """When it ends if it is not used."""
    limits: Limits
    """The limits in force; cpu, memory_mb and pids are 0 if they are not enforced."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    runtime: str
    """The isolation technology; default: the server's."""
    session_id: str
    """The session's id."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    state: Literal["starting", "active", "hibernated", "closed", "expired", "crashed", "lost"]
    """State of the session."""


class Session(_Session, total=False):
    approval: Approval
    """The approval that it needs, or needed, before it may begin; absent if it needs none."""
    cwd: str
    """Working directory of its shell, after the shell's first command."""
    details: Replay
    """Details."""
    git: GitSource
    """The repository that the workspace began with."""
    hibernated: Hibernation
    """What it comes back with from hibernation, or came back with last; absent for one that has never hibernated, or has ended."""
    image_digest: str
    """Digest that the image's name resolved to."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    last_activity_at: str
    """Time of its last activity."""
    limits_enforced: Dict[str, str]
    """What enforces each limit, or replaces its enforcement; a limit that is not enforced is absent."""
    message: str
    """What happened, as text."""
    packages: PackageLock
    """The installed packages, with all of their dependencies."""
    presets: List[NetworkPreset]
    """The presets of its egress, with what they stand for."""
    runs: int
    """How many runs were started in it."""
    runtime_reason: str
    """Why this runtime was chosen."""
    runtime_version: str
    """Its version."""
    scope_key: str
    """Its scope as namespace:id:key, % and : in the parts as %25 and %3A."""
    snapshot_digest: str
    """Digest of the files that its workspace began with, or of the snapshot at /snapshot."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    user_id: str
    """The owner."""
    warnings: List[str]
    """Rules of its network of which the server's rules allow nothing, and what the clone of its repository left out or changed."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""


class SessionOpening(TypedDict, total=False):
    allow_weak: List[str]
    """Protections that may be missing on this host; operators only."""
    base_image: str
    """Default: the server's default image."""
    cpu_time_sec: float
    """CPU seconds that all its processes may use in total; not for shell commands."""
    egress: Egress
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    env: Dict[str, str]
    """Environment variables."""
    git: GitSpec
    """A Git repository whose files the workspace begins with, cloned before the sandbox is made."""
    idle_timeout_sec: float
    """It ends after so many seconds without activity, output included; 0 is never."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    lifetime_sec: float
    """Total lifetime in seconds, used or not; 0 is the server's default."""
    max_concurrent_runs: int
    """Most runs at once; further ones wait. 0 is the server's limit."""
    max_runs: int
    """Most runs in its lifetime; 0 is no limit."""
    network_policy: str
    """deny_all, or allowlist: what egress lists."""
    packages: Packages
    """The installed packages, with all of their dependencies."""
    resources: Resources
    """Limits; unset ones are the server's defaults."""
    runtime: str
    """The isolation technology; default: the server's."""
    scope: Scope
    """Namespace, id and key by which it is found again."""
    secrets: Dict[str, Secret]
    """Files that programs find in /run/secrets, or headers for a host, by name; in a session, they are the session's."""
    snapshot: str
    """Id of the snapshot that its workspace begins with."""
    spec_version: str
    """Default: the newest that this server supports."""
    startup_timeout_sec: float
    """Limit for making the sandbox, in seconds."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    timeout_sec: float
    """Limit for the command, in seconds."""
    trust_level: str
    """How far the program is trusted; the policy sets the weakest isolation for each level."""
    ttl_sec: float
    """Lifetime in seconds; 0 is the server's default."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""
    workspace_exec: bool
    """Whether programs in the workspace may be executed."""


class SessionPage(TypedDict):
    has_more: bool
    """Whether there are more entries."""
    items: List[Session]
    """The entries."""
    limit: int
    """Most entries on a page."""
    offset: int
    """Entries skipped."""
    total: int
    """Total number of entries."""


class _SessionSpec(TypedDict):
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""


class SessionSpec(_SessionSpec, total=False):
    allow_weak: List[str]
    """Protections that may be missing on this host; operators only."""
    base_image: str
    """The image, such as host or python:3.11-slim."""
    cpu_time_sec: float
    """CPU seconds that all its processes may use in total; not for shell commands."""
    egress: Egress
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    env: Dict[str, str]
    """Environment variables."""
    git: GitSpec
    """A Git repository whose files the workspace begins with, cloned before the sandbox is made."""
    idle_timeout_sec: float
    """It ends after so many seconds without activity, output included; 0 is never."""
    isolation: str
    """The weakest class of isolation to accept; if runtime is unset, the fastest runtime of that class or stronger is chosen."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    lifetime_sec: float
    """Total lifetime in seconds, used or not; 0 is the server's default."""
    max_concurrent_runs: int
    """Most runs at once; further ones wait. 0 is the server's limit."""
    max_runs: int
    """Most runs in its lifetime; 0 is no limit."""
    network_policy: str
    """deny_all, or allowlist: what egress lists."""
    packages: Packages
    """Packages to install first, for the sandbox to read below /packages."""
    resources: Resources
    """Limits; unset ones are the server's defaults."""
    runtime: str
    """The isolation technology; default: the server's."""
    scope: Scope
    """Namespace, id and key by which it is found again."""
    secrets: Dict[str, Secret]
    """Files that programs find in /run/secrets, or headers for a host, by name; in a session, they are the session's."""
    snapshot: str
    """Id of the snapshot that its workspace begins with."""
    startup_timeout_sec: float
    """Limit for making the sandbox, in seconds."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    timeout_sec: float
    """Limit for the command, in seconds."""
    trust_level: str
    """How far the program is trusted; the policy sets the weakest isolation for each level."""
    ttl_sec: float
    """Lifetime in seconds after the last activity; 0 is the server's default."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""
    workspace_exec: bool
    """Whether programs in the workspace may be executed."""


class _ShellCommand(TypedDict):
    cmd: str
    """The command line."""


class ShellCommand(_ShellCommand, total=False):
    separate: bool
    """Whether stdout and stderr are separate pipes, rather than one terminal."""


class ShellState(TypedDict):
    cwd: str
    """Working directory of the shell."""
    program: str
    """bash or sh."""
    state: str
    """kept, or replaced if the shell was ended."""


class _ShownRun(TypedDict):
    created_at: str
    """When it was accepted."""
    exit_code: Optional[int]
    """Its exit status: 128+n if a signal ended it, null if it never started."""
    finished_at: Optional[str]
    """When it ended."""
    id: str
    """Its id, a UUID."""
    phase: Literal["queued", "starting", "running", "completed", "failed", "killed", "timed_out"]
    """Phase of the run."""
    runtime: str
    """The isolation technology; default: the server's."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command started."""


class ShownRun(_ShownRun, total=False):
    approval: Approval
    """The approval that it needs, or needed, before it may begin; absent if it needs none."""
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is cut: at most 16 KiB are recorded."""
    context: ContextRun
    details: Replay
    """Details."""
    egress: EgressReport
    """As in a run."""
    env_names: List[str]
    """Names of the request's environment variables, without their values; at most 16 KiB are recorded."""
    estimated_start_time: str
    """Estimated start, while it is queued."""
    failure: RunFailure
    git: GitSource
    """As in a run."""
    hint: str
    """What to do next."""
    image_digest: str
    """Digest that the image's name resolved to."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """What enforces each limit, or replaces its enforcement; a limit that is not enforced is absent."""
    log_stream_url: str
    """URL of its log over a WebSocket."""
    message: str
    """What happened, as text."""
    network: NetworkSpec
    """The network that the request asked for; absent without one, and in a session."""
    packages: PackageLock
    """The installed packages, with all of their dependencies."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure that cannot be measured is absent."""
    resume_from_seq: int
    """Where a stream starts by default (1.1)."""
    runtime_reason: str
    """Why this runtime was chosen."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session's id."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    snapshot_digest: str
    """Digest of the files that its workspace began with, or of the snapshot at /snapshot."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """The owner."""
    warm: bool
    """Whether its interpreter was started in advance; absent if it could not have been."""
    warnings: List[str]
    """Problems that did not end the run."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""


class _Snapshot(TypedDict):
    archive_bytes: int
    """Size of its tar archive."""
    bytes: int
    """Bytes of its files."""
    consistent: bool
    """Whether no program could change a file while the files were read."""
    created_at: str
    """When it was made."""
    digest: str
    """SHA-256 of its tar archive: the same for the same files, names, modes and times."""
    files: int
    """Its files and symbolic links."""
    kind: str
    """workspace: files; live: memory, files and processes; hibernated: the files of the hibernated session of the same id, which goes with it; hibernated_live: its memory, files and processes; template: files of the template of its name, which go with it."""
    snapshot_id: str
    """The snapshot's id."""
    stored_bytes: int
    """What it holds on the server, which counts to its owner's artifact_mb once for each digest."""


class Snapshot(_Snapshot, total=False):
    expires_at: str
    """When it is removed; absent for never."""
    name: str
    """Its name, for people."""
    scope_key: str
    """The scope of that session."""
    session_id: str
    """The session that it was made of."""
    user_id: str
    """The owner."""


class SnapshotPage(TypedDict):
    has_more: bool
    """Whether there are more entries."""
    items: List[Snapshot]
    """The entries."""
    limit: int
    """Most entries on a page."""
    offset: int
    """Entries skipped."""
    total: int
    """Total number of entries."""


class SnapshotRequest(TypedDict, total=False):
    live: bool
    """Also memory and processes; only on a runtime that can save those, and without secrets in the session."""
    name: str
    """Its name, for people; at most 128 bytes."""


class Space(TypedDict):
    bytes: int
    """Bytes in use."""
    files: int
    """Files, folders and links."""
    max_bytes: int
    """Capacity in bytes."""
    max_files: int
    """Capacity in files, folders and links."""


class _StartedRun(TypedDict):
    created_at: str
    """When it was accepted."""
    exit_code: Optional[int]
    """Its exit status: 128+n if a signal ended it, null if it never started."""
    finished_at: Optional[str]
    """When it ended."""
    id: str
    """Its id, a UUID."""
    phase: Literal["queued", "starting", "running", "completed", "failed", "killed", "timed_out"]
    """Phase of the run."""
    run_id: str
    """The run's id."""
    runtime: str
    """The isolation technology; default: the server's."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command started."""


class StartedRun(_StartedRun, total=False):
    approval: Approval
    """The approval that it needs, or needed, before it may begin; absent if it needs none."""
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is cut: at most 16 KiB are recorded."""
    context: ContextRun
    details: Replay
    """Details."""
    egress: EgressReport
    """As in a run."""
    env_names: List[str]
    """Names of the request's environment variables, without their values; at most 16 KiB are recorded."""
    estimated_start_time: str
    """Estimated start, while it is queued."""
    failure: RunFailure
    git: GitSource
    """As in a run."""
    hint: str
    """What to do next."""
    image_digest: str
    """Digest that the image's name resolved to."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """The caller's own names and values."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """What enforces each limit, or replaces its enforcement; a limit that is not enforced is absent."""
    log_stream_url: str
    """URL of its log over a WebSocket."""
    message: str
    """What happened, as text."""
    network: NetworkSpec
    """The network that the request asked for; absent without one, and in a session."""
    packages: PackageLock
    """The installed packages, with all of their dependencies."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure that cannot be measured is absent."""
    results: List[Result]
    """What code in a context has shown, at most 4 MiB together."""
    results_truncated: bool
    """Whether results were left out."""
    resume_from_seq: int
    """Where a stream starts by default (1.1)."""
    runtime_reason: str
    """Why this runtime was chosen."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session's id."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    snapshot_digest: str
    """Digest of the files that its workspace began with, or of the snapshot at /snapshot."""
    stderr: str
    """Its standard error, if the caller waited for its end."""
    stderr_encoding: Literal["utf8", "base64"]
    """Encoding of stderr."""
    stderr_omitted_at: int
    """Offset in the stream at which bytes are missing."""
    stderr_omitted_bytes: int
    """Number of bytes missing there."""
    stderr_truncated: bool
    """Whether some of stderr is missing."""
    stdout: str
    """Its standard output, if the caller waited for its end."""
    stdout_encoding: Literal["utf8", "base64"]
    """Encoding of stdout."""
    stdout_omitted_at: int
    """Offset in the stream at which bytes are missing."""
    stdout_omitted_bytes: int
    """Number of bytes missing there."""
    stdout_truncated: bool
    """Whether some of stdout is missing."""
    template: str
    """Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """The owner."""
    warm: bool
    """Whether its interpreter was started in advance; absent if it could not have been."""
    warnings: List[str]
    """Problems that did not end the run."""
    workspace: Workspace
    """Where /workspace is; absent means in memory."""


class StatFile(TypedDict):
    path: str
    """The file or folder."""


class _StoredSecret(TypedDict):
    created_at: str
    """When it was stored first."""
    name: str
    """Its name."""
    updated_at: str
    """When its value was set."""


class StoredSecret(_StoredSecret, total=False):
    shared: bool
    """Whether it is an operator's, for every user."""


class _Template(TypedDict):
    base_image: str
    """The image that it is built with, and that its sessions and runs have."""
    bytes: int
    """Bytes of its files."""
    digest: str
    """SHA-256 of all that it was made of, without the image."""
    files: int
    """Its files and symbolic links."""
    name: str
    """Its name: a-z, 0-9, and after the first also - _ and .; at most 64 characters."""
    reason: Literal["new", "changed", "asked", "image_changed", "image_removed"]
    """Why it was built last."""
    snapshot_digest: str
    """Digest of its files."""


class Template(_Template, total=False):
    build_run_id: str
    """The run of the command that the build executes; in the answer of a build, that of its last command."""
    building: str
    """What the build that is under way does: create (its session, with the packages), run[0], run[1] and so on, or save (its files); absent without a build."""
    built_at: str
    """When it was built last; absent while it is built for the first time."""
    egress: Egress
    """What an allowlist lets through."""
    env: Dict[str, str]
    """Environment of the build, and of sessions and runs, whose own variables override it."""
    image_digest: str
    """Digest of the image that it was built with; absent for host. With another image it is built again before it is used."""
    network_policy: str
    """deny_all or allowlist: of the build, and of sessions and runs that ask for no network."""
    packages: Packages
    """Packages for the build, and for sessions and runs that ask for none."""
    rebuild: bool
    """Build it even if nothing has changed."""
    resources: Resources
    """Limits of the build, and of sessions and runs that set none."""
    run: List[str]
    """Shell commands that make its files in /workspace, executed when it is built."""
    runtime: str
    """Runtime of the build, and of sessions and runs that name none."""
    shared: bool
    """Whether it is a template of all users; operators only."""
    snapshot: str
    """Id of a snapshot of the caller's, whose files the build begins with; the template keeps them."""
    start: List[str]
    """Shell commands that are executed in each new sandbox of it, before that can be used; what they leave running stays."""
    timeout_sec: float
    """How many seconds each command of run may take; absent is the server's default for a run."""
    user_id: str
    """Who built it."""
    workspace_exec: bool
    """Whether programs in /workspace may be executed."""


class TemplateList(TypedDict):
    items: List[Template]
    """The templates."""


class _TemplateSpec(TypedDict):
    base_image: str
    """The image that it is built with, and that its sessions and runs have."""
    name: str
    """Its name: a-z, 0-9, and after the first also - _ and .; at most 64 characters."""


class TemplateSpec(_TemplateSpec, total=False):
    egress: Egress
    """What an allowlist lets through."""
    env: Dict[str, str]
    """Environment of the build, and of sessions and runs, whose own variables override it."""
    network_policy: str
    """deny_all or allowlist: of the build, and of sessions and runs that ask for no network."""
    packages: Packages
    """Packages for the build, and for sessions and runs that ask for none."""
    rebuild: bool
    """Build it even if nothing has changed."""
    resources: Resources
    """Limits of the build, and of sessions and runs that set none."""
    run: List[str]
    """Shell commands that make its files in /workspace, executed when it is built."""
    runtime: str
    """Runtime of the build, and of sessions and runs that name none."""
    shared: bool
    """Whether it is a template of all users; operators only."""
    snapshot: str
    """Id of a snapshot of the caller's, whose files the build begins with; the template keeps them."""
    start: List[str]
    """Shell commands that are executed in each new sandbox of it, before that can be used; what they leave running stays."""
    timeout_sec: float
    """How many seconds each command of run may take; absent is the server's default for a run."""
    workspace_exec: bool
    """Whether programs in /workspace may be executed."""


class _Terminal(TypedDict):
    attached: int
    """Number of clients attached."""
    cols: int
    """Columns, 1 to 1000; default 80."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    created_at: str
    """When it was accepted."""
    rows: int
    """Rows, 1 to 1000; default 24."""
    session_id: str
    """The session's id."""
    terminal_id: str
    """The terminal's id."""


class Terminal(_Terminal, total=False):
    detached_at: str
    """Time since which no client is attached."""
    exit_code: int
    """Exit code of its program, once it has ended; 128+n if a signal ended it."""
    last_input_at: str
    """Time of the last input."""
    name: str
    """Display name."""
    shared: bool
    """Whether several clients may type; if not, a new client replaces the current one."""
    user_id: str
    """The owner."""


class TerminalList(TypedDict):
    items: List[Terminal]
    """The entries."""


class TerminalSpec(TypedDict, total=False):
    cols: int
    """Columns, 1 to 1000; default 80."""
    command: List[str]
    """The program and its arguments; default: a shell."""
    name: str
    """Display name."""
    rows: int
    """Rows, 1 to 1000; default 24."""
    shared: bool
    """Whether several clients may type; if not, a new client replaces the current one."""


class _Token(TypedDict):
    created_at: str
    """When it was accepted."""
    id: str
    """Its id, a UUID."""
    prefix: str
    """The key's first characters."""
    role: Literal["user", "admin"]
    """The caller's role."""
    user_id: str
    """The owner."""


class Token(_Token, total=False):
    expires_at: str
    """When it expires; absent is never."""
    last_used_at: str
    """Time of its last use, to the minute."""
    name: str
    """What it is for."""
    revoked_at: str
    """When it was revoked."""
    secret: str
    """The key itself; returned once, when it is made."""


class TokenList(TypedDict):
    items: List[Token]
    """The entries."""


class _TokenSpec(TypedDict):
    user_id: str
    """The user that it authenticates."""


class TokenSpec(_TokenSpec, total=False):
    name: str
    """What it is for."""
    role: Literal["user", "admin"]
    """The caller's role."""
    ttl_sec: float
    """Lifetime in seconds; 0 is no expiry."""


class UploadResult(TypedDict):
    bytes_received: int
    """Size of the files, unpacked."""
    file_count: int
    """Number of files."""
    session_id: str
    """The session's id."""


class UsageList(TypedDict):
    items: List[UserUsage]
    """The entries."""


class _UsageSample(TypedDict):
    at: str
    """When it was taken."""
    scope: Literal["run", "session"]
    """run for a sandbox of the run's own, session for one that a session's runs share."""


class UsageSample(_UsageSample, total=False):
    cpu_percent: float
    """CPU time since the sample before, in per cent of one core; absent in the first."""
    cpu_time_ms: float
    """Milliseconds of CPU time since the sandbox was made."""
    file_bytes: int
    """Bytes that files in memory hold; absent where they are part of memory_bytes."""
    memory_bytes: int
    """Bytes that programs hold."""
    memory_limit_bytes: int
    """Most bytes that they may hold; absent where that is not enforced."""
    pids: int
    """Processes and threads."""
    sources: Dict[str, str]
    """Where each figure was read."""


class Used(TypedDict):
    artifact_bytes: int
    """Bytes of artifacts."""
    concurrent_runs: int
    """Runs at once; in a quota, 0 is no limit."""
    cpu: float
    """Cores that sandboxes may use together."""
    cpu_seconds_today: float
    """CPU seconds since midnight UTC."""
    egress_bytes_today: int
    """Bytes sent and received over the network since midnight UTC."""
    log_bytes: int
    """Bytes of logs kept, including those of current runs."""
    memory_mb: int
    """MiB that sandboxes may use together, files in memory and runs in the queue included."""
    queued_runs: int
    """Runs in the queue."""
    sessions: int
    """Sessions that have not ended."""


class UserUsage(TypedDict):
    artifact_bytes: int
    """Bytes of artifacts."""
    cpu_seconds_today: float
    """CPU seconds since midnight UTC."""
    egress_bytes_today: int
    """Bytes sent and received over the network since midnight UTC."""
    log_bytes: int
    """Bytes of logs kept."""
    user_id: str
    """The user."""


class _Volume(TypedDict):
    created_at: str
    """When it was made."""
    mb: int
    """MiB that its files may have."""
    name: str
    """Its name."""


class Volume(_Volume, total=False):
    used_by: List[str]
    """Ids of the sessions and runs that have it now."""
    user_id: str
    """The owner."""
    written_by: str
    """Id of the one that may write to it; absent for none."""


class VolumeList(TypedDict):
    items: List[Volume]
    """The volumes."""


class VolumeSpec(TypedDict):
    mb: int
    """MiB that its files may have."""
    name: str
    """Its name: a-z, 0-9, and after the first also - _ and .; at most 64 characters."""


class Workspace(TypedDict, total=False):
    mb: int
    """MiB that the files of a disk may have; with a volume that exists, absent or its size."""
    medium: str
    """memory or disk; absent is memory, or disk with a volume."""
    read_only: bool
    """Whether nothing can be written to the volume: others can have it at the same time."""
    volume: str
    """Name of the caller's volume that it is; one that does not exist is made with mb."""


class _WriteFile(TypedDict):
    path: str
    """Path of the file: x, ./x and /workspace/x are the same. Parent folders are created."""


class WriteFile(_WriteFile, total=False):
    contents: str
    """The file as text."""
    contents_b64: str
    """The file as base64, instead of contents."""
    mode: str
    """Permission bits in octal; default: those of the file that is replaced, or 0644."""
    overwrite: bool
    """Whether to replace an existing file, which is a conflict otherwise."""


class _WriteFiles(TypedDict):
    files: List[BatchFile]
    """At most 1000 files, of 2 MiB in total."""


class WriteFiles(_WriteFiles, total=False):
    overwrite: bool
    """Whether to replace existing files; otherwise one is a conflict, and nothing is written."""
