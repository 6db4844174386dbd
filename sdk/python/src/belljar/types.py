# Made from spec/openapi.yaml by scripts/generate.py. Do not edit.
"""What the API takes and answers, as it travels. Servers that are newer may tell more."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict


class AdminPage(TypedDict):
    has_more: bool
    """Whether there are more after these."""
    items: List[AdminRun]
    """The entries."""
    limit: int
    """Most entries on a page."""
    offset: int
    """Entries skipped."""
    total: int
    """How many there are in all."""


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
    """What the image's name stood for."""
    message: Optional[str]
    """What happened, for people."""
    phase: Literal["queued", "starting", "running", "completed", "failed", "killed", "timed_out"]
    """Where the run stands."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command began."""


class AdminRun(_AdminRun, total=False):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is only the beginning of what runs: 16 KiB go on record."""
    details: Replay
    """More about it."""
    egress: EgressReport
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    estimated_start_time: str
    """When it will probably start, while it is queued."""
    hint: str
    """What to do next."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """By what each limit is enforced, or what stands in for that; one that is not is absent."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure without an honest source is left out."""
    resume_from_seq: int
    """Where a stream starts that does not say (1.1)."""
    runtime_reason: str
    """Why it was this runtime."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session's id."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """Who owns it."""
    warnings: List[str]
    """What went wrong without being fatal."""


class _Artifact(TypedDict):
    path: str
    """Path in the workspace."""
    size: int
    """In bytes."""
    type: Literal["file", "link"]
    """What it is."""


class Artifact(_Artifact, total=False):
    digest: str
    """sha256: and the digest of its bytes."""
    download_url: str
    """Where its bytes are."""
    link_target: str
    """Where the link leads; it is not followed."""
    mode: int
    """Permission bits; 420 (0644) if it is not given."""
    skipped: str
    """Why its bytes were not kept."""


class ArtifactList(TypedDict):
    items: List[Artifact]
    """The entries."""


class _BatchFile(TypedDict):
    path: str
    """Where it goes."""


class BatchFile(_BatchFile, total=False):
    contents: str
    """The file as text."""
    contents_b64: str
    """The file as base64, in place of contents."""
    mode: str
    """Permission bits in octal; 0644 if it is not given."""


class _Build(TypedDict):
    argv: List[str]
    """The compiler and what it was given."""
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
    """Whether an earlier run had it built."""
    output_truncated: bool
    """Whether the compiler printed more."""
    usage: ResourceUsage
    """What the compiler used, apart from the run's own usage."""


class _Cancellation(TypedDict):
    exit_code: Optional[int]
    """Its exit status: 128+n if a signal ended it, null if it never started."""
    phase: Literal["queued", "starting", "running", "completed", "failed", "killed", "timed_out"]
    """Where the run stands."""
    run_id: str
    """The run's id."""
    status: Literal["canceling", "finished"]
    """What was done: canceling if the run was under way, finished if it had ended."""


class Cancellation(_Cancellation, total=False):
    message: str
    """Why it ended, for people."""
    reason_code: str
    """Why it did not simply complete."""


class _Check(TypedDict):
    ok: bool
    """Whether it works."""


class Check(_Check, total=False):
    detail: str
    """In words."""


class Chunk(TypedDict):
    encoding: Literal["utf8", "base64"]
    """Of text."""
    seq: int
    """Its place; seqs rise, with gaps."""
    stream: Literal["stdout", "stderr"]
    """Where it was printed."""
    text: str
    """What was printed."""


class _CloseRequest(TypedDict):
    key_prefix: str
    """The beginning of their scope_key, at least a namespace and its colon."""


class CloseRequest(_CloseRequest, total=False):
    retain_seconds: float
    """Keeps them for so long to be looked at, without their scope; 0 ends them at once."""


class ClosedSessions(TypedDict):
    closed: List[str]
    """Their ids, the oldest first."""


class _DeleteFile(TypedDict):
    path: str
    """The file or folder."""


class DeleteFile(_DeleteFile, total=False):
    recursive: bool
    """Whether a folder is deleted with all that is in it."""


class _DetailedRun(TypedDict):
    artifacts: List[Artifact]
    """What it left."""
    created_at: str
    """When it was accepted."""
    exit_code: Optional[int]
    """Its exit status: 128+n if a signal ended it, null if it never started."""
    finished_at: Optional[str]
    """When it ended."""
    id: str
    """Its id, a UUID."""
    image_digest: Optional[str]
    """What the image's name stood for."""
    message: Optional[str]
    """What happened, for people."""
    phase: Literal["queued", "starting", "running", "completed", "failed", "killed", "timed_out"]
    """Where the run stands."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command began."""


class DetailedRun(_DetailedRun, total=False):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is only the beginning of what runs: 16 KiB go on record."""
    details: Replay
    """More about it."""
    egress: EgressReport
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    estimated_start_time: str
    """When it will probably start, while it is queued."""
    hint: str
    """What to do next."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """By what each limit is enforced, or what stands in for that; one that is not is absent."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure without an honest source is left out."""
    resume_from_seq: int
    """Where a stream starts that does not say (1.1)."""
    runtime_reason: str
    """Why it was this runtime."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session's id."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """Who owns it."""
    warnings: List[str]
    """What went wrong without being fatal."""


class _Discovery(TypedDict):
    runtimes: List[RuntimeInfo]
    """Every runtime that the server knows."""
    store_mode: Literal["memory", "sqlite", "postgres", "redis"]
    """Where records are kept."""
    trust_levels: Dict[str, str]
    """The weakest isolation of each trust level."""


class Discovery(_Discovery, total=False):
    default_trust_level: str
    """That of requests that say none."""


class Egress(TypedDict, total=False):
    cidrs: List[str]
    """Networks: 203.0.113.0/24."""
    hosts: List[str]
    """Hosts: example.com, or *.example.com for every name below it."""
    ips: List[str]
    """Addresses: 203.0.113.7."""


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
    """Why it was denied: no_match, dns_mismatch, policy_changed, sni_missing, private_address, port_denied, dns_failed, limit."""
    rule: str
    """The rule that matched."""


class EgressReport(TypedDict):
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


class _Error(TypedDict):
    code: Literal["invalid_request", "invalid_spec_version", "unauthorized", "forbidden", "not_found", "idempotency_conflict", "conflict", "rate_limited", "quota_exceeded", "policy_denied", "timeout", "canceled", "payload_too_large", "path_escapes", "runtime_unavailable", "image_unavailable", "image_invalid", "disk_full", "internal"]
    """What went wrong, for programs."""
    message: str
    """What went wrong, for people."""


class Error(_Error, total=False):
    details: Dict[str, Any]
    """More about it, by code: field, offset, supported …."""
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
    """Seconds of CPU time that all its processes may use together; the session's limit if it is not given."""
    cwd: str
    """Directory of the workspace to start in; /workspace if it is not given."""
    env: Dict[str, str]
    """Environment variables, over the session's."""
    stdin: str
    """The command's whole standard input."""
    stream: bool
    """Answer as soon as the command is accepted; its output is read by exec_id."""
    timeout_seconds: float
    """How long the command may take; the session's timeout if it is not given."""
    wait_seconds: float
    """How long to wait for the end before answering; as long as the server allows (10 minutes) if it is not given. If the wait ends first the status is running."""


class _ExecCanceled(TypedDict):
    exec_id: str
    """The exec's id."""
    status: Literal["canceling", "finished"]
    """canceling if it was under way, finished if it had ended."""


class ExecCanceled(_ExecCanceled, total=False):
    exit_code: int
    """Its exit status, once it has ended: 128+n if a signal ended it, 125 if it never began."""
    hint: str
    """What to do next."""
    message: str
    """What happened, for people."""
    reason_code: str
    """Why it did not simply complete."""
    signal: str
    """The signal that ended it."""
    timed_out: bool
    """Whether its time was over."""


class _ExecOutput(TypedDict):
    chunks: List[Chunk]
    """The output, in order."""
    done: bool
    """Whether it has ended and nothing follows these chunks."""
    next_seq: int
    """The since_seq to ask for next."""


class ExecOutput(_ExecOutput, total=False):
    exit_code: int
    """Its exit status, once it has ended: 128+n if a signal ended it, 125 if it never began."""
    hint: str
    """What to do next."""
    message: str
    """What happened, for people."""
    reason_code: str
    """Why it did not simply complete."""
    signal: str
    """The signal that ended it."""
    timed_out: bool
    """Whether its time was over."""
    truncated: bool
    """Whether output is missing after since_seq: the log was cut at its cap, or removed."""


class ExecWait(TypedDict, total=False):
    timeout_seconds: float
    """How long to wait; as long as the server allows (10 minutes) if it is not given."""


class _ExecWaited(TypedDict):
    done: bool
    """Whether it has ended."""


class ExecWaited(_ExecWaited, total=False):
    exit_code: int
    """Its exit status, once it has ended: 128+n if a signal ended it, 125 if it never began."""
    hint: str
    """What to do next."""
    message: str
    """What happened, for people."""
    reason_code: str
    """Why it did not simply complete."""
    signal: str
    """The signal that ended it."""
    timed_out: bool
    """Whether its time was over."""


class _Executed(TypedDict):
    exec_id: str
    """The run's id; everything that takes a run takes it too."""
    sandbox_id: str
    """The session's id."""
    status: Literal["completed", "running"]
    """completed once it has ended, however it did."""


class Executed(_Executed, total=False):
    details: Replay
    """What became of the request's Idempotency-Key."""
    duration_ms: int
    """Milliseconds from the command's start to its end."""
    exit_code: int
    """Its exit status, once it has ended: 128+n if a signal ended it, 125 if it never began."""
    hint: str
    """What to do next."""
    message: str
    """What happened, for people."""
    reason_code: str
    """Why it did not simply complete."""
    signal: str
    """The signal that ended it."""
    stderr: str
    """What it printed as errors, if it was waited for."""
    stderr_encoding: Literal["utf8", "base64"]
    """Of stderr."""
    stderr_omitted_at: int
    """Where bytes are missing, in the stream's own bytes."""
    stderr_omitted_bytes: int
    """How many are missing there."""
    stderr_truncated: bool
    """Whether some of stderr is missing."""
    stdout: str
    """What it printed, if it was waited for."""
    stdout_encoding: Literal["utf8", "base64"]
    """Of stdout."""
    stdout_omitted_at: int
    """Where bytes are missing, in the stream's own bytes."""
    stdout_omitted_bytes: int
    """How many are missing there."""
    stdout_truncated: bool
    """Whether some of stdout is missing."""
    timed_out: bool
    """Whether its time was over."""


class Failure(TypedDict):
    error: Error
    """What went wrong."""


class FileDeleted(TypedDict):
    deleted: str
    """Absolute path of what was deleted."""
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
    """When it was changed last, in seconds."""
    path: str
    """Path, relative to the workspace."""
    size: int
    """In bytes."""
    type: str
    """file, dir, symlink or other."""


class FileEntry(_FileEntry, total=False):
    target: str
    """Where a link leads; it is not followed."""


class FileList(TypedDict):
    entries: List[FileEntry]
    """What is there."""
    truncated: bool
    """Whether there are more."""


class _FileMatch(TypedDict):
    path: str
    """Path, relative to the workspace."""


class FileMatch(_FileMatch, total=False):
    line: int
    """Number of the line, from 1."""
    text: str
    """The line, or 500 bytes of it around the find."""


class FileMatches(TypedDict):
    files_searched: int
    """How many files were looked at."""
    matches: List[FileMatch]
    """The finds, by path and line."""
    truncated: bool
    """Whether it stopped at a bound, or passed over the rest of a very long file or line."""


class FileSearch(TypedDict, total=False):
    content: str
    """Text to find in a line, at most 1024 bytes."""
    ignore_case: bool
    """Whether upper and lower case are the same in content."""
    max_results: int
    """Most finds; 100 if it is not given, at most 1000."""
    name: str
    """A glob: without a slash of the name at any depth (*.go), with one of the path below path (src/**/*.ts)."""
    path: str
    """The folder to look in; the workspace if it is not given."""
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
    """Of the whole file."""
    truncated: bool
    """Whether the file goes on."""


class FileText(_FileText, total=False):
    contents: str
    """What was read, if it is valid UTF-8. A character that the bound cuts is left for the next read."""
    contents_b64: str
    """What was read, if it is not."""
    next_offset: int
    """Where to read on, if it was truncated."""


class FilesStored(TypedDict):
    entries: List[FileEntry]
    """The files as they are now."""
    ok: bool
    """true."""


class _Frame(TypedDict):
    seq: int
    """Counts from 1 within the run, without a gap."""
    type: Literal["stdout", "stderr", "event", "heartbeat", "truncated"]
    """What the frame carries."""


class Frame(_Frame, total=False):
    """One entry of a run's log."""

    data: Any
    """Output as a string, or an event's object."""
    encoding: Literal["utf8", "base64"]
    """Of data, in stdout and stderr."""
    event: Literal["phase", "start", "end", "error", "resume", "stdin_closed"]
    """Which event."""
    reason: str
    """Why the log was cut."""
    ts: str
    """Time of a heartbeat."""


class Health(TypedDict):
    status: Literal["ok"]
    """ok."""


class _Image(TypedDict):
    bytes: int
    """Of its files, unpacked."""
    config: ImageConfig
    """Its settings for programs."""
    digest: str
    """sha256: and the digest of its manifest for this platform; empty for host."""
    layers: int
    """How many layers it is made of."""
    names: List[str]
    """All its names, as they were given."""
    ref: str
    """Its first name: host, or a whole reference such as docker.io/library/python:3.11-slim."""
    runtime: str
    """The runtime whose engine keeps it; empty if Belljar does, for every runtime that can use it."""
    source: Literal["pull", "import", "build", "host", "engine"]
    """pull, import, build, host or engine."""


class Image(_Image, total=False):
    added_at: str
    """When it came here."""
    created_at: str
    """When it was made, according to the image."""
    in_use: bool
    """Whether living sandboxes have it."""
    last_used_at: str
    """When a sandbox had it last, to the minute."""
    platform: str
    """Such as linux/amd64."""


class ImageConfig(TypedDict, total=False):
    cmd: List[str]
    """Only shown."""
    entrypoint: List[str]
    """Only shown: a request's command is the whole of it."""
    env: List[str]
    """NAME=value; a request's env goes over it."""
    labels: Dict[str, str]
    """Names and values of its maker's own."""
    user: str
    """Whom programs run as, unless it is root."""
    working_dir: str
    """Where commands start that do not say, if it is there."""


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
    """Digest of the layer that it is about; absent for all of it."""
    shared: bool
    """Whether the layer was here already."""
    total: int
    """Bytes in all; absent if that is not known."""


class ImagePrune(TypedDict, total=False):
    all: bool
    """Every one goes that is not in use."""
    keep_bytes: int
    """Those used longest ago go until what is left has no more than this."""
    unused_sec: float
    """Those go that no sandbox has used for so long."""


class ImagePruned(TypedDict):
    bytes: int
    """How many were freed."""
    images: List[str]
    """Digests of those that went."""


class _ImagePull(TypedDict):
    ref: str
    """The image, such as python:3.11-slim."""


class ImagePull(_ImagePull, total=False):
    always: bool
    """Ask the registry what the name stands for now, even if an image of that name is here."""
    runtime: str
    """The runtime whose engine is to have it; Belljar's own store if it is not given. Operators only."""


class ImageTag(TypedDict):
    name: str
    """The name that it gets."""
    ref: str
    """The image, by a name or its digest."""


class _InlineFile(TypedDict):
    content_b64: str
    """The file's bytes, base64."""
    path: str
    """Path in the workspace."""


class InlineFile(_InlineFile, total=False):
    mode: int
    """Permission bits; 420 (0644) if it is not given."""


class KeyEntry(TypedDict):
    created_at: str
    """When it was accepted."""
    endpoint: str
    """runs or sessions."""
    key: str
    """The key."""
    object_id: str
    """What it made."""
    user_key: str
    """Whose key it is."""


class KeyList(TypedDict):
    items: List[KeyEntry]
    """The entries."""


class _Limits(TypedDict):
    artifact_mb: int
    """MiB of artifacts together."""
    build_timeout_sec: float
    """How long a compiler may take before the command runs."""
    cpu: float
    """Cores; 0.5 is half a core."""
    grace_sec: float
    """Between TERM and KILL."""
    inodes: int
    """Files on each writable file system."""
    log_bytes: int
    """Output kept; what is more is counted and dropped."""
    memory_mb: int
    """MiB of memory for the programs."""
    nofile: int
    """Open files a process."""
    nproc: int
    """Processes of the user."""
    pids: int
    """Processes and threads at once."""
    startup_timeout_sec: float
    """How long the sandbox may take to be made."""
    timeout_sec: float
    """How long the command may take."""
    tmp_mb: int
    """MiB of /tmp."""
    workspace_mb: int
    """MiB of /workspace."""


class Limits(_Limits, total=False):
    build_memory_mb: int
    """MiB of the compiler; as memory_mb if it is not given."""
    cpu_time_sec: float
    """Seconds of CPU time that all its processes may use together; not for shell commands."""


class ListFiles(TypedDict, total=False):
    limit: int
    """Most entries; 1000 if it is not given, at most 10000."""
    path: str
    """The folder; the workspace if it is not given."""
    recursive: bool
    """Whether to list everything below."""


class _MakeFolder(TypedDict):
    path: str
    """The folder. Parent folders are created; an existing folder is not an error."""


class MakeFolder(_MakeFolder, total=False):
    mode: str
    """Permission bits in octal; 0755 if it is not given."""


class Me(TypedDict):
    limits: Limits
    """The limits in force; cpu, memory_mb and pids are 0 where nothing holds the sandbox to them."""
    max_limits: Limits
    """The most that can be asked for."""
    policy: Dict[str, Any]
    """The policy in force, by the names of its settings."""
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


class _NetworkCheck(TypedDict):
    allowed: bool
    """Whether a program could connect to it."""
    host: str
    """Its host."""
    message: str
    """Both, for people."""
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


class _OpenedSession(TypedDict):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    created: bool
    """It was made now; else it was there already, and is as it was made then."""
    created_at: str
    """When it was accepted."""
    expires_at: str
    """When it ends if nothing happens."""
    image: str
    """The same as base_image."""
    limits: Limits
    """The limits in force; cpu, memory_mb and pids are 0 where nothing holds the sandbox to them."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    sandbox_id: str
    """The same as session_id."""
    session_id: str
    """The session's id."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    state: Literal["starting", "active", "closed", "expired", "crashed", "lost"]
    """Where the session stands."""
    workdir: str
    """Where its runs begin, and its files lie."""


class OpenedSession(_OpenedSession, total=False):
    cwd: str
    """Where its shell stands, once it has had a command."""
    details: Replay
    """More about it."""
    image_digest: str
    """What the image's name stood for."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    last_activity_at: str
    """When something happened in it last."""
    limits_enforced: Dict[str, str]
    """By what each limit is enforced, or what stands in for that; one that is not is absent."""
    message: str
    """What happened, for people."""
    runs: int
    """How many runs were started in it."""
    runtime_reason: str
    """Why it was this runtime."""
    runtime_version: str
    """Its version."""
    scope_key: str
    """Its scope as namespace:id:key, % and : in the parts as %25 and %3A."""
    user_id: str
    """Who owns it."""


class Problem(TypedDict):
    detail: str
    """What went wrong, for people."""
    extensions: Dict[str, Any]
    """The code, the hint and the details."""
    status: int
    """The HTTP status."""
    title: str
    """The code in words."""
    type: str
    """urn:belljar:error: and the code."""


class _Quota(TypedDict):
    artifact_mb: int
    """MiB of artifacts kept at once; 0 is no limit."""
    concurrent_runs: int
    """Runs at once; as a quota 0 is no limit."""
    cpu_seconds_per_day: float
    """CPU seconds a day; 0 is no limit."""


class Quota(_Quota, total=False):
    cpu: float
    """Cores that sandboxes may use together; 0 is no limit."""
    log_mb: int
    """MiB of logs kept at once; 0 is no limit."""
    memory_mb: int
    """MiB that sandboxes may use together, files in memory and runs in the queue included; 0 is no limit."""


class _ReadFile(TypedDict):
    path: str
    """The file."""


class ReadFile(_ReadFile, total=False):
    max_bytes: int
    """How much of it to answer with; 262144 if it is not given, at most 8388608."""
    offset: int
    """Bytes of it to skip."""


class Readiness(TypedDict):
    checks: Dict[str, Check]
    """By part."""
    status: Literal["ready", "not_ready"]
    """The whole."""


RenameFile = TypedDict("RenameFile", {"from": str, "overwrite": bool, "to": str}, total=False)


class Replay(TypedDict):
    idempotency_key_echo: str
    """The request's Idempotency-Key."""
    idempotency_status: Literal["created", "replayed"]
    """Whether this answer is the first one's."""


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
    """The limits in force; cpu, memory_mb and pids are 0 where nothing holds the sandbox to them."""
    max_open_files: int
    """Most open files at once."""
    peak_file_mb: float
    """Most MiB that files in memory held at once."""
    peak_rss_mb: float
    """Most MiB of memory that programs held at once."""
    pids: int
    """Most processes and threads at once."""
    sources: Dict[str, str]
    """Where each figure was read."""


class Resources(TypedDict, total=False):
    artifact_mb: int
    """MiB of artifacts together."""
    cpu: float
    """Cores; 0.5 is half a core."""
    log_bytes: int
    """Output kept; what is more is counted and dropped."""
    memory_mb: int
    """MiB of memory for the programs."""
    nofile: int
    """Open files a process."""
    nproc: int
    """Processes of the user."""
    pids: int
    """Processes and threads at once."""
    workspace_mb: int
    """MiB of /workspace."""


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
    """Where the run stands."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command began."""


class Run(_Run, total=False):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is only the beginning of what runs: 16 KiB go on record."""
    details: Replay
    """More about it."""
    egress: EgressReport
    """What left the sandbox while the run lasted, and what was denied."""
    estimated_start_time: str
    """When it will probably start, while it is queued."""
    hint: str
    """What to do next."""
    image_digest: str
    """What the image's name stood for."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """By what each limit is enforced, or what stands in for that; one that is not is absent."""
    message: str
    """What happened, for people."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure without an honest source is left out."""
    resume_from_seq: int
    """Where a stream starts that does not say (1.1)."""
    runtime_reason: str
    """Why it was this runtime."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session that it ran in."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """Who owns it."""
    warnings: List[str]
    """What went wrong without being fatal."""


class RunPage(TypedDict):
    has_more: bool
    """Whether there are more after these."""
    items: List[Run]
    """The entries."""
    limit: int
    """Most entries on a page."""
    offset: int
    """Entries skipped."""
    total: int
    """How many there are in all."""


class _RunSpec(TypedDict):
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""


class RunSpec(_RunSpec, total=False):
    allow_weak: List[str]
    """Protections that may be missing on this host; operators only."""
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build_cache: bool
    """Whether the same program of the same user is built once: source, files, environment, compiler and image."""
    build_memory_mb: int
    """MiB of the compiler; as memory_mb if it is not given."""
    build_timeout_sec: float
    """How long a compiler may take before the command runs."""
    capture_patterns: List[str]
    """Globs of the files to keep as artifacts, such as out/**/*.csv."""
    code: str
    """A program's text, in place of command."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    cpu_time_sec: float
    """Seconds of CPU time that all its processes may use together; not for shell commands."""
    cwd: str
    """Directory of the workspace to start in; its root if it is not given."""
    egress: Egress
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    env: Dict[str, str]
    """Environment variables."""
    files: List[InlineFile]
    """Small files for the workspace, together at most 1 MB."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """The weakest class of isolation that will do; without a runtime the fastest is taken."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    language: str
    """Of code, or of the file that command begins with: python, node, c …."""
    network_policy: str
    """deny_all, or allowlist: what egress lists."""
    resources: Resources
    """What it may use; the server's defaults where it does not say."""
    resume_from_seq: int
    """Where a stream starts that does not say (1.1)."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    session_id: str
    """The session to run in; in place of base_image."""
    shell: ShellCommand
    startup_timeout_sec: float
    """How long the sandbox may take to be made."""
    stdin: str
    """The command's whole standard input."""
    stdin_bps: int
    """Most bytes of input a second (1.1)."""
    stdin_idle_timeout_sec: float
    """Input is closed after so long without any (1.1)."""
    stdin_max_bytes: int
    """Most bytes of input in all (1.1)."""
    stdin_max_frame_bytes: int
    """Most bytes of one input frame (1.1)."""
    timeout_sec: float
    """How long the command may take."""
    trust_level: str
    """How far the program is trusted; the policy knows the weakest isolation of each level."""
    workspace_exec: bool
    """Whether programs in the workspace may be executed."""


class _RuntimeInfo(TypedDict):
    artifact_ttl_hours: int
    """How long logs and artifacts are kept."""
    available: bool
    """Whether it works on this host."""
    default: bool
    """Whether it is used where none is asked for."""
    default_images: List[str]
    """Images that are there."""
    egress_allowlist_supported: bool
    """Whether network_policy allowlist works."""
    host_image: bool
    """Whether the image host can be used."""
    implementation_state: Literal["supported", "host_gated", "scaffold", "unsupported"]
    """How far it is built, and whether this host allows it."""
    interactive_supported: bool
    """Whether interactive runs work."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    max_cpu: float
    """Most cores that can be asked for."""
    max_log_bytes: int
    """Most output that is kept."""
    max_mem_mb: int
    """Most MiB of memory that can be asked for."""
    max_upload_depth: int
    """Most folders above a file of an upload."""
    max_upload_files: int
    """Most files of an upload."""
    max_upload_mb: int
    """Most MiB of an upload."""
    name: str
    """What it is called."""
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
    """separate: programs have another user than Belljar's agent; shared."""
    limits_enforced: Dict[str, str]
    """By what each limit is enforced, or what stands in for that; one that is not is absent."""
    oci_runtime: str
    """What an engine isolates with."""
    oom_scope: str
    """process: a memory hog dies alone; sandbox: all of it dies."""
    protections: List[RuntimeProtection]
    """Every protection and limit, also those that this host cannot enforce."""
    reasons: List[RuntimeReason]
    """Why it does not work here."""
    rootless: bool
    """Whether it works without root."""
    version: str
    """Its version."""


class _RuntimeProtection(TypedDict):
    enforced: bool
    """Whether it is enforced here."""
    name: str
    """What it is called."""


class RuntimeProtection(_RuntimeProtection, total=False):
    by: str
    """What enforces it here."""
    hint: str
    """What to do next."""
    weaker: str
    """What is weaker than the best that the runtime knows."""


class _RuntimeReason(TypedDict):
    code: str
    """The reason, for programs."""
    detail: str
    """In words."""


class RuntimeReason(_RuntimeReason, total=False):
    hint: str
    """What to do next."""
    step: str
    """What failed."""


class _Scope(TypedDict):
    id: str
    """Of the workflow's run, the agent's run, the user or the thread."""
    namespace: str
    """workflow, agent, user or thread."""


class Scope(_Scope, total=False):
    key: str
    """The session's name there; default if it is not given. isolated is a new session each time."""


class _Session(TypedDict):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    created_at: str
    """When it was accepted."""
    expires_at: str
    """When it ends if nothing happens."""
    limits: Limits
    """The limits in force; cpu, memory_mb and pids are 0 where nothing holds the sandbox to them."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    session_id: str
    """The session's id."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    state: Literal["starting", "active", "closed", "expired", "crashed", "lost"]
    """Where the session stands."""


class Session(_Session, total=False):
    cwd: str
    """Where its shell stands, once it has had a command."""
    details: Replay
    """More about it."""
    image_digest: str
    """What the image's name stood for."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    last_activity_at: str
    """When something happened in it last."""
    limits_enforced: Dict[str, str]
    """By what each limit is enforced, or what stands in for that; one that is not is absent."""
    message: str
    """What happened, for people."""
    runs: int
    """How many runs were started in it."""
    runtime_reason: str
    """Why it was this runtime."""
    runtime_version: str
    """Its version."""
    scope_key: str
    """Its scope as namespace:id:key, % and : in the parts as %25 and %3A."""
    user_id: str
    """Who owns it."""


class SessionOpening(TypedDict, total=False):
    allow_weak: List[str]
    """Protections that may be missing on this host; operators only."""
    base_image: str
    """The server's own choice, if it is not given."""
    cpu_time_sec: float
    """Seconds of CPU time that all its processes may use together; not for shell commands."""
    egress: Egress
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    env: Dict[str, str]
    """Environment variables."""
    idle_timeout_sec: float
    """It ends when nothing happens in it for so long, not even output; 0 is never."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    lifetime_sec: float
    """Life in seconds in all, used or not; 0 is the server's default."""
    max_concurrent_runs: int
    """Most runs at once, others wait; 0 is as many as the server allows."""
    max_runs: int
    """Most runs in its whole life; 0 is no limit."""
    network_policy: str
    """deny_all, or allowlist: what egress lists."""
    resources: Resources
    """What it may use; the server's defaults where it does not say."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    scope: Scope
    """By what it is found again."""
    spec_version: str
    """The newest that this server knows, if it is not given."""
    startup_timeout_sec: float
    """How long the sandbox may take to be made."""
    timeout_sec: float
    """How long the command may take."""
    trust_level: str
    """How far the program is trusted; the policy knows the weakest isolation of each level."""
    ttl_sec: float
    """Life in seconds; 0 is the server's default."""
    workspace_exec: bool
    """Whether programs in the workspace may be executed."""


class SessionPage(TypedDict):
    has_more: bool
    """Whether there are more after these."""
    items: List[Session]
    """The entries."""
    limit: int
    """Most entries on a page."""
    offset: int
    """Entries skipped."""
    total: int
    """How many there are in all."""


class _SessionSpec(TypedDict):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""


class SessionSpec(_SessionSpec, total=False):
    allow_weak: List[str]
    """Protections that may be missing on this host; operators only."""
    cpu_time_sec: float
    """Seconds of CPU time that all its processes may use together; not for shell commands."""
    egress: Egress
    """What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing."""
    env: Dict[str, str]
    """Environment variables."""
    idle_timeout_sec: float
    """It ends when nothing happens in it for so long, not even output; 0 is never."""
    isolation: str
    """The weakest class of isolation that will do; without a runtime the fastest is taken."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    lifetime_sec: float
    """Life in seconds in all, used or not; 0 is the server's default."""
    max_concurrent_runs: int
    """Most runs at once, others wait; 0 is as many as the server allows."""
    max_runs: int
    """Most runs in its whole life; 0 is no limit."""
    network_policy: str
    """deny_all, or allowlist: what egress lists."""
    resources: Resources
    """What it may use; the server's defaults where it does not say."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    scope: Scope
    """By what it is found again."""
    startup_timeout_sec: float
    """How long the sandbox may take to be made."""
    timeout_sec: float
    """How long the command may take."""
    trust_level: str
    """How far the program is trusted; the policy knows the weakest isolation of each level."""
    ttl_sec: float
    """Life in seconds after the last activity; 0 is the server's default."""
    workspace_exec: bool
    """Whether programs in the workspace may be executed."""


class _ShellCommand(TypedDict):
    cmd: str
    """What the shell is to do."""


class ShellCommand(_ShellCommand, total=False):
    separate: bool
    """Keeps stdout and stderr apart; else both are a terminal."""


class ShellState(TypedDict):
    cwd: str
    """Where the shell stands."""
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
    """Where the run stands."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command began."""


class ShownRun(_ShownRun, total=False):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is only the beginning of what runs: 16 KiB go on record."""
    details: Replay
    """More about it."""
    egress: EgressReport
    """As in a run."""
    estimated_start_time: str
    """When it will probably start, while it is queued."""
    hint: str
    """What to do next."""
    image_digest: str
    """What the image's name stood for."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """By what each limit is enforced, or what stands in for that; one that is not is absent."""
    log_stream_url: str
    """Where to follow it over a WebSocket."""
    message: str
    """What happened, for people."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure without an honest source is left out."""
    resume_from_seq: int
    """Where a stream starts that does not say (1.1)."""
    runtime_reason: str
    """Why it was this runtime."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session's id."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """Who owns it."""
    warnings: List[str]
    """What went wrong without being fatal."""


class Space(TypedDict):
    bytes: int
    """Bytes that are used."""
    files: int
    """Files, folders and links."""
    max_bytes: int
    """Bytes that there is room for."""
    max_files: int
    """Files that there is room for."""


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
    """Where the run stands."""
    run_id: str
    """The run's id."""
    runtime: str
    """The isolation technology; the server's default if it is not given."""
    spec_version: str
    """Version of the request's grammar: 1.0 or 1.1."""
    started_at: Optional[str]
    """When its command began."""


class StartedRun(_StartedRun, total=False):
    base_image: str
    """The image, such as host or python:3.11-slim."""
    build: Build
    """How its program was compiled before it ran."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    command_truncated: bool
    """Whether command is only the beginning of what runs: 16 KiB go on record."""
    details: Replay
    """More about it."""
    egress: EgressReport
    """As in a run."""
    estimated_start_time: str
    """When it will probably start, while it is queued."""
    hint: str
    """What to do next."""
    image_digest: str
    """What the image's name stood for."""
    interactive: bool
    """Whether standard input stays open for the caller's stream (1.1)."""
    isolation: str
    """namespace, user_space_kernel, microvm or remote."""
    labels: Dict[str, str]
    """Names and values of the caller's own."""
    last_seq: int
    """Seq of the log's end event, once it has ended."""
    limits_enforced: Dict[str, str]
    """By what each limit is enforced, or what stands in for that; one that is not is absent."""
    log_stream_url: str
    """Where to follow it over a WebSocket."""
    message: str
    """What happened, for people."""
    policy_hash: str
    """SHA-256 of the policy in force."""
    reason_code: str
    """Why it did not simply complete."""
    resource_usage: ResourceUsage
    """What it used; a figure without an honest source is left out."""
    resume_from_seq: int
    """Where a stream starts that does not say (1.1)."""
    runtime_reason: str
    """Why it was this runtime."""
    runtime_version: str
    """Its version."""
    session_id: str
    """The session's id."""
    shell: ShellState
    signal: str
    """The signal that ended it."""
    stderr: str
    """What it printed as errors, if it was waited for."""
    stderr_encoding: Literal["utf8", "base64"]
    """Of stderr."""
    stderr_omitted_at: int
    """Where bytes are missing, in the stream's own bytes."""
    stderr_omitted_bytes: int
    """How many are missing there."""
    stderr_truncated: bool
    """Whether some of stderr is missing."""
    stdout: str
    """What it printed, if it was waited for."""
    stdout_encoding: Literal["utf8", "base64"]
    """Of stdout."""
    stdout_omitted_at: int
    """Where bytes are missing, in the stream's own bytes."""
    stdout_omitted_bytes: int
    """How many are missing there."""
    stdout_truncated: bool
    """Whether some of stdout is missing."""
    truncated: bool
    """Whether the log was cut at its cap."""
    user_id: str
    """Who owns it."""
    warnings: List[str]
    """What went wrong without being fatal."""


class StatFile(TypedDict):
    path: str
    """The file or folder."""


class _Terminal(TypedDict):
    attached: int
    """How many watch it now."""
    cols: int
    """Columns, 1 to 1000; 80 if it is not given."""
    command: List[str]
    """The program and its arguments; no shell is involved."""
    created_at: str
    """When it was accepted."""
    rows: int
    """Rows, 1 to 1000; 24 if it is not given."""
    session_id: str
    """The session's id."""
    terminal_id: str
    """The terminal's id."""


class Terminal(_Terminal, total=False):
    detached_at: str
    """Since when no client is attached."""
    exit_code: int
    """Once its program has ended: how; 128+n if a signal ended it."""
    last_input_at: str
    """Time of the last input."""
    name: str
    """Its name, for people."""
    shared: bool
    """Whether several clients may type; if not, a new client replaces the one before."""
    user_id: str
    """Who owns it."""


class TerminalList(TypedDict):
    items: List[Terminal]
    """The entries."""


class TerminalSpec(TypedDict, total=False):
    cols: int
    """Columns, 1 to 1000; 80 if it is not given."""
    command: List[str]
    """The program and its arguments; a shell if it is not given."""
    name: str
    """A name, for people."""
    rows: int
    """Rows, 1 to 1000; 24 if it is not given."""
    shared: bool
    """Whether several clients may type; if not, a new client replaces the one before."""


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
    """Who owns it."""


class Token(_Token, total=False):
    expires_at: str
    """When it ends; absent is never."""
    last_used_at: str
    """To the minute."""
    name: str
    """What it is for."""
    revoked_at: str
    """When it was revoked."""
    secret: str
    """The key itself, when it is made and never again."""


class TokenList(TypedDict):
    items: List[Token]
    """The entries."""


class _TokenSpec(TypedDict):
    user_id: str
    """Who calls with it."""


class TokenSpec(_TokenSpec, total=False):
    name: str
    """What it is for."""
    role: Literal["user", "admin"]
    """The caller's role."""
    ttl_sec: float
    """Life in seconds; 0 is for ever."""


class UploadResult(TypedDict):
    bytes_received: int
    """Bytes of the files, unpacked."""
    file_count: int
    """How many files."""
    session_id: str
    """The session's id."""


class UsageList(TypedDict):
    items: List[UserUsage]
    """The entries."""


class Used(TypedDict):
    artifact_bytes: int
    """Bytes of artifacts."""
    concurrent_runs: int
    """Runs at once; as a quota 0 is no limit."""
    cpu: float
    """Cores that sandboxes may use together."""
    cpu_seconds_today: float
    """CPU seconds since midnight UTC."""
    log_bytes: int
    """Bytes of logs kept, those of runs under way included."""
    memory_mb: int
    """MiB that sandboxes may use together, files in memory and runs in the queue included."""
    queued_runs: int
    """Runs that wait."""
    sessions: int
    """Sessions that have not ended."""


class UserUsage(TypedDict):
    artifact_bytes: int
    """Bytes of artifacts."""
    cpu_seconds_today: float
    """CPU seconds since midnight UTC."""
    log_bytes: int
    """Bytes of logs kept."""
    user_id: str
    """The user."""


class _WriteFile(TypedDict):
    path: str
    """Where it goes: x, ./x and /workspace/x are the same file. Folders above it are made."""


class WriteFile(_WriteFile, total=False):
    contents: str
    """The file as text."""
    contents_b64: str
    """The file as base64, in place of contents."""
    mode: str
    """Permission bits in octal; 0644 if it is not given."""
    overwrite: bool
    """Whether a file that is there is replaced; else it is a conflict."""


class _WriteFiles(TypedDict):
    files: List[BatchFile]
    """At most 1000 files, of 2 MiB together."""


class WriteFiles(_WriteFiles, total=False):
    overwrite: bool
    """Whether files that are there are replaced; else one is a conflict, and nothing is written."""
