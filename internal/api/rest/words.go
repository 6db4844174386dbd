package rest

import (
	"maps"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
)

// annotate sets the description of every property, and its enum if it has few values. A test checks that none is missing.
func annotate(schemas map[string]*huma.Schema) {
	descriptions := words()
	maps.Copy(descriptions, imageWords())
	maps.Copy(descriptions, networkWords())
	maps.Copy(descriptions, portWords())
	maps.Copy(descriptions, secretWords())
	maps.Copy(descriptions, approvalWords())
	maps.Copy(descriptions, packageWords())
	maps.Copy(descriptions, failureWords())
	maps.Copy(descriptions, usageWords())
	maps.Copy(descriptions, snapshotWords())
	maps.Copy(descriptions, volumeWords())
	maps.Copy(descriptions, templateWords())
	values := map[string][]any{
		"ImageProgress.phase": {"resolving", "pulling", "unpacking", "done"}, "Image.source": {"pull", "import", "build", "host", "engine"},
		"phase": {"queued", "starting", "running", "completed", "failed", "killed", "timed_out"}, "role": {"user", "admin"},
		"Session.state": sessionStates(), "Approval.state": {"pending", "approved", "denied", "expired", "withdrawn"}, "Approval.kind": {"run", "session"}, "decision": {"approve", "deny"},
		"OpenedSession.state": sessionStates(), "idempotency_status": {"created", "replayed"},
		"implementation_state": {"supported", "host_gated", "scaffold", "unsupported"},
		"output_encoding":      {"utf8", "base64"}, "stdout_encoding": {"utf8", "base64"}, "stderr_encoding": {"utf8", "base64"},
		"Template.reason": {"new", "changed", "asked", "image_changed", "image_removed"},
		"store_mode":      {"memory", "sqlite", "postgres", "redis"},
	}
	for _, row := range belljar.Table() {
		values["Error.code"] = append(values["Error.code"], string(row.Code))
	}
	for name, s := range schemas {
		for field, p := range s.Properties {
			own := name + "." + field
			if p.Description == "" {
				if p.Description = descriptions[own]; p.Description == "" {
					p.Description = descriptions[field]
				}
			}
			if p.Enum == nil {
				if p.Enum = values[own]; p.Enum == nil && p.Type == huma.TypeString {
					p.Enum = values[field]
				}
			}
		}
	}
}

func sessionStates() []any {
	return []any{"starting", "active", "hibernated", "closed", "expired", "crashed", "lost"}
}

const sessionWarnings = "Rules of its network of which the server's rules allow nothing, and what the clone of its repository left out or changed"

// words are the descriptions of properties, by name, or by schema and name if the name alone is ambiguous.
func words() map[string]string {
	return map[string]string{
		"terminal_id": "The terminal's id", "cols": "Columns, 1 to 1000; default 80", "rows": "Rows, 1 to 1000; default 24",
		"shared": "Whether several clients may type; if not, a new client replaces the current one", "attached": "Number of clients attached",
		"last_input_at": "Time of the last input", "detached_at": "Time since which no client is attached", "TerminalSpec.name": "Display name",
		"Terminal.name": "Display name", "TerminalSpec.command": "The program and its arguments; default: a shell",
		"Terminal.exit_code": "Exit code of its program, once it has ended; 128+n if a signal ended it",
		"id":                 "Its id, a UUID", "run_id": "The run's id", "session_id": "The session's id", "user_id": "The owner",
		"trust_level": "How far the program is trusted; the policy sets the weakest isolation for each level", "RunSpec.isolation": "The weakest class of isolation to accept; if runtime is unset, the fastest runtime of that class or stronger is chosen",
		"SessionSpec.isolation": "The weakest class of isolation to accept; if runtime is unset, the fastest runtime of that class or stronger is chosen",
		"runtime_reason":        "Why this runtime was chosen", "trust_levels": "The weakest isolation for each trust level", "default_trust_level": "The trust level of requests that set none",
		"protections": "Every protection and limit, including those that this host cannot enforce", "RuntimeProtection.name": "Its name", "enforced": "Whether this host enforces it",
		"by": "What enforces it on this host", "weaker": "What is weaker than the runtime's best mechanism", "rootless": "Whether it works without root",
		"oom_scope": "What is killed at the memory limit: process is one process, sandbox is all of them", "agent_uid": "separate: programs run as another user than Belljar's agent; shared: as the same user",
		"oci_runtime": "The OCI runtime of the engine", "host_image": "Whether the image host can be used", "unpacked_images": "Whether images of Belljar's store can be used",
		"own_images": "Whether its engine has its own images", "snapshots": "Whether sandboxes can be saved", "pause": "Whether sandboxes can be paused",
		"RunSpec.session_id": "The session to run in, instead of base_image", "Run.session_id": "The session that it ran in",
		"TokenSpec.user_id": "The user that it authenticates", "Me.user_id": "The caller", "UserUsage.user_id": "The user",
		"spec_version": "Version of the request's grammar: 1.0 or 1.1", "runtime": "The isolation technology; default: the server's",
		"runtime_version": "Its version", "base_image": "The image, such as host or python:3.11-slim", "image_digest": "Digest that the image's name resolved to",
		"RunSpec.cwd": "Working directory, in the workspace; default: its root", "command": "The program and its arguments; no shell is involved", "code": "A program's source, instead of command", "language": "Language of code, or of the file that command starts with: python, node, c …",
		"build": "How its program was compiled before it ran", "build_timeout_sec": "Limit for the compiler, in seconds", "build_memory_mb": "Memory limit of the compiler in MiB; default: memory_mb",
		"RunSpec.warm": "auto uses an interpreter that was started in advance, if one waits; off starts one; default: auto", "warm": "Whether its interpreter was started in advance; absent if it could not have been",
		"build_cache": "Whether to reuse an earlier build of the same user with the same source, files, environment, compiler and image", "cached": "Whether the build of an earlier run was reused",
		"argv": "The compiler and its arguments", "Build.exit_code": "The compiler's exit status: 128+n if a signal ended it, null while it runs",
		"duration_sec": "Seconds from its start to its end", "Build.usage": "What the compiler used, apart from the run's own usage",
		"output": "What the compiler printed, at most 64 KiB; left out of lists", "output_encoding": "utf8 or base64", "output_truncated": "Whether the compiler printed more",
		"Error.code": "Error code", "RuntimeReason.code": "Reason code", "Cancellation.message": "Why it ended, as text",
		"env": "Environment variables", "files": "Small files to write to the workspace, at most 1 MiB in total", "path": "Path in the workspace",
		"content_b64": "The file's bytes, base64", "mode": "Permission bits; default 420 (0644)",
		"startup_timeout_sec": "Limit for making the sandbox, in seconds", "timeout_sec": "Limit for the command, in seconds",
		"cpu_time_sec": "CPU seconds that all its processes may use in total; not for shell commands", "ResourceUsage.cpu_time_sec": "CPU seconds of all processes",
		"resources": "Limits; unset ones are the server's defaults", "network_policy": "deny_all, or allowlist: what egress lists",
		"capture_patterns": "Globs of the files to keep as artifacts, such as out/**/*.csv", "labels": "The caller's own names and values",
		"Series.labels": "The labels of the metric", "Series.value": "What was counted or measured; seconds in metrics whose names have seconds",
		"stdin": "The command's whole standard input", "interactive": "Whether standard input stays open for the caller's stream (1.1)",
		"stdin_max_bytes": "Most bytes of input in total (1.1)", "stdin_max_frame_bytes": "Most bytes of one input frame (1.1)",
		"stdin_bps": "Most bytes of input a second (1.1)", "stdin_idle_timeout_sec": "Seconds without input after which the input is closed (1.1)",
		"resume_from_seq": "Where a stream starts by default (1.1)", "workspace_exec": "Whether programs in the workspace may be executed",
		"allow_weak": "Protections that may be missing on this host; operators only", "ttl_sec": "Lifetime in seconds; 0 is the server's default",
		"SessionSpec.ttl_sec": "Lifetime in seconds after the last activity; 0 is the server's default", "TokenSpec.ttl_sec": "Lifetime in seconds; 0 is no expiry",
		"scope": "Namespace, id and key by which it is found again", "scope_key": "Its scope as namespace:id:key, % and : in the parts as %25 and %3A",
		"Scope.namespace": "workflow, agent, user or thread", "Scope.id": "Id of the workflow run, the agent run, the user or the thread",
		"Scope.key":        "The session's name in it; default: default. isolated makes a new session each time",
		"lifetime_sec":     "Total lifetime in seconds, used or not; 0 is the server's default",
		"idle_timeout_sec": "It ends after so many seconds without activity, output included; 0 is never",
		"max_runs":         "Most runs in its lifetime; 0 is no limit", "max_concurrent_runs": "Most runs at once; further ones wait. 0 is the server's limit",
		"Session.runs": "How many runs were started in it", "OpenedSession.runs": "How many runs were started in it",
		"last_activity_at": "Time of its last activity", "key_prefix": "Prefix of their scope_key: at least a namespace and its colon; a colon in an id or a key is %3A, and % is %25",
		"Session.cwd": "Working directory of its shell, after the shell's first command", "OpenedSession.cwd": "Working directory of its shell, after the shell's first command",
		"ShellCommand.cmd": "The command line", "ShellCommand.separate": "Whether stdout and stderr are separate pipes, rather than one terminal",
		"ShellState.cwd": "Working directory of the shell", "ShellState.state": "kept, or replaced if the shell was ended", "ShellState.program": "bash or sh",
		"ContextSpec.language": "python, ipython (Python, with the image's IPython), javascript or bash", "ContextSpec.name": "Its name; default: the language", "ContextSpec.cwd": "Directory of the workspace to start in; default: its root",
		"Context.name": "Its name in the session", "Context.language": "python, ipython, javascript or bash", "Context.cwd": "Directory of the workspace in which it started",
		"Context.state": "idle; busy while code is executed; stopped if it has no interpreter now, and the next code starts one", "Context.runs": "How many pieces of code its interpreters were given",
		"Context.last_used_at": "When its last code ended", "RunSpec.context": "The session's context to execute code in; with language, it is made if it does not exist",
		"RunSpec.replay":      "If the context has lost its interpreter, its earlier code is executed again first, without output",
		"ContextRun.replayed": "How many pieces of earlier code were executed again before this one",
		"Run.context":         "The context in which its code was executed", "ContextRun.name": "Name of the context", "ContextRun.language": "Its language",
		"ContextRun.state": "kept; replaced if the variables are gone, as it began in a new interpreter or has ended its own; new for the first code since the session hibernated",
		"Completion.word":  "The end of the code, which each match replaces", "Completion.matches": "Sorted, at most 200",
		"results": "What code in a context has shown, at most 4 MiB together", "results_truncated": "Whether results were left out",
		"Result.type": "value (of the last expression), display, error, input (it asks for a line of standard input) or cut (further results were dropped)",
		"Result.data": "Representations by MIME type: JSON types as JSON values, others as text, or in base64 unless they are text or SVG", "Result.count": "Number of the code in its context",
		"Result.name": "Name of the error", "Result.value": "Text of the error", "Result.frames": "Where the error passed, outermost first", "Result.traceback": "The error as its language prints it",
		"Result.prompt": "What the input is for", "Result.password": "Whether the input is not to be shown", "Result.text": "Why results were dropped",
		"ResultFrame.file": "The file, or the number of the code", "ResultFrame.line": "The line in it", "ResultFrame.function": "The function", "ResultFrame.source": "The line's text",
		"retain_seconds": "Seconds to keep them for inspection, without their scope; 0 ends them at once",
		"cpu":            "Cores; 0.5 is half a core", "memory_mb": "MiB of memory for the programs", "pids": "Processes and threads at once",
		"nofile": "Open files per process", "nproc": "Processes of the user", "workspace_mb": "MiB of /workspace", "tmp_mb": "MiB of /tmp",
		"inodes": "Files on each writable file system", "log_bytes": "Bytes of output kept; the rest is counted and dropped", "artifact_mb": "MiB of artifacts in total",
		"Quota.artifact_mb": "MiB of artifacts, snapshots and volumes on disk kept at once; 0 is no limit",
		"Quota.log_mb":      "MiB of logs kept at once; 0 is no limit",
		"Quota.memory_mb":   "MiB that sandboxes may use together, files in memory and runs in the queue included; 0 is no limit",
		"Quota.cpu":         "Cores that sandboxes may use together; 0 is no limit",
		"Quota.own":         "Whether the user has a quota of their own rather than the default",
		"Used.memory_mb":    "MiB that sandboxes may use together, files in memory and runs in the queue included", "Used.cpu": "Cores that sandboxes may use together",
		"Used.log_bytes": "Bytes of logs kept, including those of current runs", "UserUsage.log_bytes": "Bytes of logs kept",
		"ResourceUsage.log_bytes": "Bytes printed",
		"ResourceUsage.pids":      "Most processes and threads at once", "grace_sec": "Between TERM and KILL",
		"phase": "Phase of the run", "exit_code": "Its exit status: 128+n if a signal ended it, null if it never started", "signal": "The signal that ended it",
		"reason_code": "Why it did not simply complete", "message": "What happened, as text", "Error.message": "What went wrong, as text",
		"hint": "What to do next", "warnings": "Problems that did not end the run", "Session.warnings": sessionWarnings, "OpenedSession.warnings": sessionWarnings, "policy_hash": "SHA-256 of the policy in force",
		"created_at": "When it was accepted", "estimated_start_time": "Estimated start, while it is queued", "started_at": "When its command started",
		"finished_at": "When it ended", "resource_usage": "What it used; a figure that cannot be measured is absent",
		"limits": "The limits in force; cpu, memory_mb and pids are 0 if they are not enforced", "max_limits": "The largest limits that a request may set", "max_ttl_sec": "The largest ttl_sec that a session may set", "limits_enforced": "What enforces each limit, or replaces its enforcement; a limit that is not enforced is absent", "truncated": "Whether the log was cut at its cap", "command_truncated": "Whether command is cut: at most 16 KiB are recorded", "env_names": "Names of the request's environment variables, without their values; at most 16 KiB are recorded", "last_seq": "Seq of the log's end event, once it has ended",
		"details": "Details", "Error.details": "Details, by code: field, offset, supported …", "log_stream_url": "URL of its log over a WebSocket",
		"stdout": "Its standard output, if the caller waited for its end", "stderr": "Its standard error, if the caller waited for its end",
		"stdout_encoding": "Encoding of stdout", "stderr_encoding": "Encoding of stderr", "stdout_truncated": "Whether some of stdout is missing", "stderr_truncated": "Whether some of stderr is missing",
		"stdout_omitted_at": "Offset in the stream at which bytes are missing", "stderr_omitted_at": "Offset in the stream at which bytes are missing",
		"stdout_omitted_bytes": "Number of bytes missing there", "stderr_omitted_bytes": "Number of bytes missing there",
		"status": "What was done: canceling if the run had not ended, finished if it had", "Health.status": "ok", "Readiness.status": "Status of the server as a whole", "Problem.status": "The HTTP status",
		"checks": "One check per part", "Check.ok": "Whether it works", "Check.state": "State of what a part depends on", "Check.circuit": "Whether that is asked: open after failures, half-open for an attempt", "detail": "Details, as text", "Problem.detail": "What went wrong, as text",
		"type": "What it is", "Problem.type": "urn:belljar:error: and the code", "title": "The code, as text", "extensions": "The code, the hint and the details",
		"error": "What went wrong", "items": "The entries", "total": "Total number of entries", "limit": "Most entries on a page", "offset": "Entries skipped", "has_more": "Whether there are more entries",
		"state": "State of the session", "expires_at": "When it ends if it is not used", "Token.expires_at": "When it expires; absent is never",
		"bytes_received": "Size of the files, unpacked", "file_count": "Number of files",
		"size": "Size in bytes", "digest": "sha256: and the digest of its bytes", "link_target": "Target of the link, which is not followed", "skipped": "Why its bytes were not kept",
		"download_url": "URL of its content", "artifacts": "Files captured from it",
		"wall_time_sec": "Seconds from the command's start to its end", "peak_rss_mb": "Most MiB of memory that programs held at once",
		"file_mb": "MiB that files in memory held at the end", "peak_file_mb": "Most MiB that files in memory held at once",
		"max_open_files": "Most open files at once", "artifact_bytes": "Bytes of artifacts", "sources": "Source of each figure",
		"store_mode": "Where records are kept", "runtimes": "Every runtime of the server", "name": "Its name", "available": "Whether it works on this host",
		"TokenSpec.name": "What it is for", "Token.name": "What it is for", "default": "Whether it is used by default",
		"default_images": "Images that are available", "max_cpu": "Most cores that a request may set", "max_mem_mb": "Most MiB of memory that a request may set",
		"max_upload_mb": "Most MiB of an upload", "max_upload_files": "Most files of an upload", "max_upload_depth": "Most folders above a file of an upload",
		"max_log_bytes": "Most output that is kept", "queue_max_length": "Runs that can wait", "queue_ttl_sec": "How long a run may wait",
		"workspace_cap_mb": "Most MiB of a workspace", "artifact_ttl_hours": "How long logs and artifacts are kept", "supported_spec_versions": "Versions of requests",
		"interactive_supported": "Whether interactive runs work", "egress_allowlist_supported": "Whether network_policy allowlist works", "notes": "Anything else",
		"version": "Its version", "implementation_state": "Whether it is implemented and supported on this host", "isolation": "namespace, user_space_kernel, microvm or remote",
		"reasons": "Why it does not work here", "step": "The step that failed", "role": "The caller's role", "policy": "The policy in force, by setting",
		"quota": "The caller's quota", "used": "How much of it is used", "concurrent_runs": "Runs at once; in a quota, 0 is no limit", "queued_runs": "Runs in the queue",
		"sessions": "Sessions that have not ended", "cpu_seconds_today": "CPU seconds since midnight UTC", "cpu_seconds_per_day": "CPU seconds per day; 0 is no limit",
		"egress_bytes_today": "Bytes sent and received over the network since midnight UTC", "egress_mb_per_day": "MiB over the network per day; 0 is no limit",
		"endpoint": "runs or sessions", "user_key": "Owner of the key", "key": "The key", "object_id": "Id of the object that it made",
		"idempotency_key_echo": "The request's Idempotency-Key", "idempotency_status": "Whether this request made the object (created) or repeats an earlier one (replayed)",
		"prefix": "The key's first characters", "secret": "The key itself; returned once, when it is made", "last_used_at": "Time of its last use, to the minute", "revoked_at": "When it was revoked",
		"FileEntry.etag": "The SHA-256 of the content in hexadecimal, in quotes. A write of more than 8 MiB returns none", "FileEntry.path": "Path, relative to the workspace", "FileEntry.type": "file, dir, symlink or other", "FileEntry.mode": "Permission bits in octal", "mtime_unix": "Time of the last change, in seconds since 1970",
		"target": "Target of a link, which is not followed", "entries": "The entries of the folder", "FileList.truncated": "Whether there are more",
		"FileSearch.path": "The folder to search; default: the workspace", "FileSearch.name": "A glob: without a slash, it matches names at any depth (*.go); with one, paths relative to path (src/**/*.ts)",
		"FileSearch.content": "Text to find in a line, at most 1024 bytes", "regexp": "Whether content is a regular expression (RE2)", "ignore_case": "Whether content matches regardless of case",
		"max_results": "Most matches; default 100, at most 1000", "FileMatch.path": "Path, relative to the workspace", "line": "Number of the line, from 1", "FileMatch.text": "The line, or 500 bytes of it around the match",
		"matches": "The matches, by path and line", "FileMatches.truncated": "Whether the search stopped at a limit, or skipped the rest of a very long file or line", "files_searched": "Number of files searched",
		"Space.bytes": "Bytes in use", "Space.files": "Files, folders and links", "max_bytes": "Capacity in bytes", "max_files": "Capacity in files, folders and links",
	}
}
