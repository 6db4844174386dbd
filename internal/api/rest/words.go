package rest

import (
	"maps"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
)

// annotate sets the description of every property, and its enum if it has few values. A test checks that none is missing.
func annotate(schemas map[string]*huma.Schema) {
	said := words()
	maps.Copy(said, imageWords())
	maps.Copy(said, networkWords())
	values := map[string][]any{
		"ImageProgress.phase": {"resolving", "pulling", "unpacking", "done"}, "Image.source": {"pull", "import", "build", "host", "engine"},
		"phase": {"queued", "starting", "running", "completed", "failed", "killed", "timed_out"}, "role": {"user", "admin"},
		"Session.state": sessionStates(), "OpenedSession.state": sessionStates(), "idempotency_status": {"created", "replayed"},
		"implementation_state": {"supported", "host_gated", "scaffold", "unsupported"},
		"output_encoding":      {"utf8", "base64"}, "stdout_encoding": {"utf8", "base64"}, "stderr_encoding": {"utf8", "base64"},
		"store_mode": {"memory", "sqlite", "postgres", "redis"},
	}
	for _, row := range belljar.Table() {
		values["Error.code"] = append(values["Error.code"], string(row.Code))
	}
	for name, s := range schemas {
		for field, p := range s.Properties {
			own := name + "." + field
			if p.Description == "" {
				if p.Description = said[own]; p.Description == "" {
					p.Description = said[field]
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
	return []any{"starting", "active", "closed", "expired", "crashed", "lost"}
}

// words are the descriptions of properties, by name, or by schema and name if the name alone is ambiguous.
func words() map[string]string {
	return map[string]string{
		"terminal_id": "The terminal's id", "cols": "Columns, 1 to 1000; 80 if it is not given", "rows": "Rows, 1 to 1000; 24 if it is not given",
		"shared": "Whether several clients may type; if not, a new client replaces the one before", "attached": "How many watch it now",
		"last_input_at": "Time of the last input", "detached_at": "Since when no client is attached", "TerminalSpec.name": "A name, for people",
		"Terminal.name": "Its name, for people", "TerminalSpec.command": "The program and its arguments; a shell if it is not given",
		"Terminal.exit_code": "Once its program has ended: how; 128+n if a signal ended it",
		"id":                 "Its id, a UUID", "run_id": "The run's id", "session_id": "The session's id", "user_id": "Who owns it",
		"trust_level": "How far the program is trusted; the policy knows the weakest isolation of each level", "RunSpec.isolation": "The weakest class of isolation that will do; without a runtime the fastest is taken",
		"SessionSpec.isolation": "The weakest class of isolation that will do; without a runtime the fastest is taken",
		"runtime_reason":        "Why it was this runtime", "trust_levels": "The weakest isolation of each trust level", "default_trust_level": "That of requests that say none",
		"protections": "Every protection and limit, also those that this host cannot enforce", "RuntimeProtection.name": "What it is called", "enforced": "Whether it is enforced here",
		"by": "What enforces it here", "weaker": "What is weaker than the best that the runtime knows", "rootless": "Whether it works without root",
		"oom_scope": "process: a memory hog dies alone; sandbox: all of it dies", "agent_uid": "separate: programs have another user than Belljar's agent; shared",
		"oci_runtime": "What an engine isolates with", "host_image": "Whether the image host can be used", "unpacked_images": "Whether images of Belljar's store can be used",
		"own_images": "Whether its engine has its own images", "snapshots": "Whether sandboxes can be saved", "pause": "Whether sandboxes can be paused",
		"RunSpec.session_id": "The session to run in; in place of base_image", "Run.session_id": "The session that it ran in",
		"TokenSpec.user_id": "Who calls with it", "Me.user_id": "The caller", "UserUsage.user_id": "The user",
		"spec_version": "Version of the request's grammar: 1.0 or 1.1", "runtime": "The isolation technology; the server's default if it is not given",
		"runtime_version": "Its version", "base_image": "The image, such as host or python:3.11-slim", "image_digest": "What the image's name stood for",
		"RunSpec.cwd": "Directory of the workspace to start in; its root if it is not given", "command": "The program and its arguments; no shell is involved", "code": "A program's text, in place of command", "language": "Of code, or of the file that command begins with: python, node, c …",
		"build": "How its program was compiled before it ran", "build_timeout_sec": "How long a compiler may take before the command runs", "build_memory_mb": "MiB of the compiler; as memory_mb if it is not given",
		"build_cache": "Whether the same program of the same user is built once: source, files, environment, compiler and image", "cached": "Whether an earlier run had it built",
		"argv": "The compiler and what it was given", "Build.exit_code": "The compiler's exit status: 128+n if a signal ended it, null while it runs",
		"duration_sec": "Seconds from its start to its end", "Build.usage": "What the compiler used, apart from the run's own usage",
		"output": "What the compiler printed, at most 64 KiB; left out of lists", "output_encoding": "utf8 or base64", "output_truncated": "Whether the compiler printed more",
		"Error.code": "What went wrong, for programs", "RuntimeReason.code": "The reason, for programs", "Cancellation.message": "Why it ended, for people",
		"env": "Environment variables", "files": "Small files for the workspace, together at most 1 MB", "path": "Path in the workspace",
		"content_b64": "The file's bytes, base64", "mode": "Permission bits; 420 (0644) if it is not given",
		"startup_timeout_sec": "How long the sandbox may take to be made", "timeout_sec": "How long the command may take",
		"cpu_time_sec": "Seconds of CPU time that all its processes may use together; not for shell commands", "ResourceUsage.cpu_time_sec": "CPU seconds of all processes",
		"resources": "What it may use; the server's defaults where it does not say", "network_policy": "deny_all, or allowlist: what egress lists",
		"capture_patterns": "Globs of the files to keep as artifacts, such as out/**/*.csv", "labels": "Names and values of the caller's own",
		"stdin": "The command's whole standard input", "interactive": "Whether standard input stays open for the caller's stream (1.1)",
		"stdin_max_bytes": "Most bytes of input in all (1.1)", "stdin_max_frame_bytes": "Most bytes of one input frame (1.1)",
		"stdin_bps": "Most bytes of input a second (1.1)", "stdin_idle_timeout_sec": "Input is closed after so long without any (1.1)",
		"resume_from_seq": "Where a stream starts that does not say (1.1)", "workspace_exec": "Whether programs in the workspace may be executed",
		"allow_weak": "Protections that may be missing on this host; operators only", "ttl_sec": "Life in seconds; 0 is the server's default",
		"SessionSpec.ttl_sec": "Life in seconds after the last activity; 0 is the server's default", "TokenSpec.ttl_sec": "Life in seconds; 0 is for ever",
		"scope": "By what it is found again", "scope_key": "Its scope as namespace:id:key, % and : in the parts as %25 and %3A",
		"Scope.namespace": "workflow, agent, user or thread", "Scope.id": "Of the workflow's run, the agent's run, the user or the thread",
		"Scope.key":        "The session's name there; default if it is not given. isolated is a new session each time",
		"lifetime_sec":     "Life in seconds in all, used or not; 0 is the server's default",
		"idle_timeout_sec": "It ends when nothing happens in it for so long, not even output; 0 is never",
		"max_runs":         "Most runs in its whole life; 0 is no limit", "max_concurrent_runs": "Most runs at once, others wait; 0 is as many as the server allows",
		"Session.runs": "How many runs were started in it", "OpenedSession.runs": "How many runs were started in it",
		"last_activity_at": "When something happened in it last", "key_prefix": "The beginning of their scope_key, at least a namespace and its colon",
		"Session.cwd": "Where its shell stands, once it has had a command", "OpenedSession.cwd": "Where its shell stands, once it has had a command",
		"ShellCommand.cmd": "What the shell is to do", "ShellCommand.separate": "Keeps stdout and stderr apart; else both are a terminal",
		"ShellState.cwd": "Where the shell stands", "ShellState.state": "kept, or replaced if the shell was ended", "ShellState.program": "bash or sh",
		"retain_seconds": "Keeps them for so long to be looked at, without their scope; 0 ends them at once",
		"cpu":            "Cores; 0.5 is half a core", "memory_mb": "MiB of memory for the programs", "pids": "Processes and threads at once",
		"nofile": "Open files a process", "nproc": "Processes of the user", "workspace_mb": "MiB of /workspace", "tmp_mb": "MiB of /tmp",
		"inodes": "Files on each writable file system", "log_bytes": "Output kept; what is more is counted and dropped", "artifact_mb": "MiB of artifacts together",
		"Quota.artifact_mb": "MiB of artifacts kept at once; 0 is no limit",
		"Quota.log_mb":      "MiB of logs kept at once; 0 is no limit",
		"Quota.memory_mb":   "MiB that sandboxes may use together, files in memory and runs in the queue included; 0 is no limit",
		"Quota.cpu":         "Cores that sandboxes may use together; 0 is no limit",
		"Used.memory_mb":    "MiB that sandboxes may use together, files in memory and runs in the queue included", "Used.cpu": "Cores that sandboxes may use together",
		"Used.log_bytes": "Bytes of logs kept, those of runs under way included", "UserUsage.log_bytes": "Bytes of logs kept",
		"ResourceUsage.log_bytes": "Bytes printed",
		"ResourceUsage.pids":      "Most processes and threads at once", "grace_sec": "Between TERM and KILL",
		"phase": "Where the run stands", "exit_code": "Its exit status: 128+n if a signal ended it, null if it never started", "signal": "The signal that ended it",
		"reason_code": "Why it did not simply complete", "message": "What happened, for people", "Error.message": "What went wrong, for people",
		"hint": "What to do next", "warnings": "What went wrong without being fatal", "policy_hash": "SHA-256 of the policy in force",
		"created_at": "When it was accepted", "estimated_start_time": "When it will probably start, while it is queued", "started_at": "When its command began",
		"finished_at": "When it ended", "resource_usage": "What it used; a figure without an honest source is left out",
		"limits": "The limits in force; cpu, memory_mb and pids are 0 where nothing holds the sandbox to them", "max_limits": "The most that can be asked for", "limits_enforced": "By what each limit is enforced, or what stands in for that; one that is not is absent", "truncated": "Whether the log was cut at its cap", "command_truncated": "Whether command is only the beginning of what runs: 16 KiB go on record", "last_seq": "Seq of the log's end event, once it has ended",
		"details": "More about it", "Error.details": "More about it, by code: field, offset, supported …", "log_stream_url": "Where to follow it over a WebSocket",
		"stdout": "What it printed, if it was waited for", "stderr": "What it printed as errors, if it was waited for",
		"stdout_encoding": "Of stdout", "stderr_encoding": "Of stderr", "stdout_truncated": "Whether some of stdout is missing", "stderr_truncated": "Whether some of stderr is missing",
		"stdout_omitted_at": "Where bytes are missing, in the stream's own bytes", "stderr_omitted_at": "Where bytes are missing, in the stream's own bytes",
		"stdout_omitted_bytes": "How many are missing there", "stderr_omitted_bytes": "How many are missing there",
		"status": "What was done: canceling if the run was under way, finished if it had ended", "Health.status": "ok", "Readiness.status": "The whole", "Problem.status": "The HTTP status",
		"checks": "By part", "Check.ok": "Whether it works", "detail": "In words", "Problem.detail": "What went wrong, for people",
		"type": "What it is", "Problem.type": "urn:belljar:error: and the code", "title": "The code in words", "extensions": "The code, the hint and the details",
		"error": "What went wrong", "items": "The entries", "total": "How many there are in all", "limit": "Most entries on a page", "offset": "Entries skipped", "has_more": "Whether there are more after these",
		"state": "Where the session stands", "expires_at": "When it ends if nothing happens", "Token.expires_at": "When it ends; absent is never",
		"bytes_received": "Bytes of the files, unpacked", "file_count": "How many files",
		"size": "In bytes", "digest": "sha256: and the digest of its bytes", "link_target": "Where the link leads; it is not followed", "skipped": "Why its bytes were not kept",
		"download_url": "Where its bytes are", "artifacts": "What it left",
		"wall_time_sec": "Seconds from the command's start to its end", "peak_rss_mb": "Most MiB of memory that programs held at once",
		"file_mb": "MiB that files in memory held at the end", "peak_file_mb": "Most MiB that files in memory held at once",
		"max_open_files": "Most open files at once", "artifact_bytes": "Bytes of artifacts", "sources": "Where each figure was read",
		"store_mode": "Where records are kept", "runtimes": "Every runtime that the server knows", "name": "What it is called", "available": "Whether it works on this host",
		"TokenSpec.name": "What it is for", "Token.name": "What it is for", "default": "Whether it is used where none is asked for",
		"default_images": "Images that are there", "max_cpu": "Most cores that can be asked for", "max_mem_mb": "Most MiB of memory that can be asked for",
		"max_upload_mb": "Most MiB of an upload", "max_upload_files": "Most files of an upload", "max_upload_depth": "Most folders above a file of an upload",
		"max_log_bytes": "Most output that is kept", "queue_max_length": "Runs that can wait", "queue_ttl_sec": "How long a run may wait",
		"workspace_cap_mb": "Most MiB of a workspace", "artifact_ttl_hours": "How long logs and artifacts are kept", "supported_spec_versions": "Versions of requests",
		"interactive_supported": "Whether interactive runs work", "egress_allowlist_supported": "Whether network_policy allowlist works", "notes": "Anything else",
		"version": "Its version", "implementation_state": "How far it is built, and whether this host allows it", "isolation": "namespace, user_space_kernel, microvm or remote",
		"reasons": "Why it does not work here", "step": "What failed", "role": "The caller's role", "policy": "The policy in force, by the names of its settings",
		"quota": "The caller's quota", "used": "How much of it is used", "concurrent_runs": "Runs at once; as a quota 0 is no limit", "queued_runs": "Runs that wait",
		"sessions": "Sessions that have not ended", "cpu_seconds_today": "CPU seconds since midnight UTC", "cpu_seconds_per_day": "CPU seconds a day; 0 is no limit",
		"endpoint": "runs or sessions", "user_key": "Whose key it is", "key": "The key", "object_id": "What it made",
		"idempotency_key_echo": "The request's Idempotency-Key", "idempotency_status": "Whether this answer is the first one's",
		"prefix": "The key's first characters", "secret": "The key itself, when it is made and never again", "last_used_at": "To the minute", "revoked_at": "When it was revoked",
		"FileEntry.path": "Path, relative to the workspace", "FileEntry.type": "file, dir, symlink or other", "FileEntry.mode": "Permission bits in octal", "mtime_unix": "When it was changed last, in seconds",
		"target": "Where a link leads; it is not followed", "entries": "What is there", "FileList.truncated": "Whether there are more",
		"FileSearch.path": "The folder to look in; the workspace if it is not given", "FileSearch.name": "A glob: without a slash of the name at any depth (*.go), with one of the path below path (src/**/*.ts)",
		"FileSearch.content": "Text to find in a line, at most 1024 bytes", "regexp": "Whether content is a regular expression (RE2)", "ignore_case": "Whether upper and lower case are the same in content",
		"max_results": "Most finds; 100 if it is not given, at most 1000", "FileMatch.path": "Path, relative to the workspace", "line": "Number of the line, from 1", "FileMatch.text": "The line, or 500 bytes of it around the find",
		"matches": "The finds, by path and line", "FileMatches.truncated": "Whether it stopped at a bound, or passed over the rest of a very long file or line", "files_searched": "How many files were looked at",
		"Space.bytes": "Bytes that are used", "Space.files": "Files, folders and links", "max_bytes": "Bytes that there is room for", "max_files": "Files that there is room for",
	}
}
