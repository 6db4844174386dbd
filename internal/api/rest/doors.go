package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Kinds of values, for operations that are declared by hand.
func aText(about string) *huma.Schema { return &huma.Schema{Type: "string", Description: about} }
func aWhole(about string) *huma.Schema {
	return &huma.Schema{Type: "integer", Format: "int64", Description: about}
}
func aFlag(about string) *huma.Schema { return &huma.Schema{Type: "boolean", Description: about} }
func aTime(about string) *huma.Schema {
	return &huma.Schema{Type: "string", Format: "date-time", Description: about}
}
func aList(of *huma.Schema) *huma.Schema { return &huma.Schema{Type: "array", Items: of} }

type fields = map[string]*huma.Schema

// anObject has these fields; those that are named are always there.
func anObject(f fields, always ...string) *huma.Schema {
	return &huma.Schema{Type: "object", Properties: f, Required: always}
}

// takes is a JSON body.
func takes(s *huma.Schema) *huma.RequestBody {
	s.AdditionalProperties = false
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: s}}}
}

// says is a JSON answer.
func says(about string, s *huma.Schema) map[string]*huma.Response {
	return map[string]*huma.Response{"200": answers(about, "application/json", s)}
}

// declareShellSessions adds the shell API, which package shell serves (docs/compatibility.md#shell-api).
func declareShellSessions(doc *huma.OpenAPI) {
	const sessions, session = "/v1/sessions", "/v1/sessions/{id}"
	id := inPath("id", "The session's id")
	path, done := inQuery("path", "The file or folder: x and /workspace/x are the same", aText("")), says("It is done", anObject(fields{"ok": aFlag("true")}, "ok"))
	path.Required = true
	info := anObject(fields{
		"id": aText(""), "image": aText(""), "status": {Type: "string", Enum: []any{"running", "expired", "destroyed", "crashed"}},
		"cwd": aText("The shell's directory, after its last command"), "created_at": aTime(""), "expires_at": aTime(""), "last_activity": aTime(""),
	}, "id", "image", "status", "cwd", "created_at", "expires_at", "last_activity")
	command := func() *huma.RequestBody {
		return takes(anObject(fields{
			"cmd": aText("A line or a whole script, at most 1 MiB"), "timeout_ms": aWhole("How long it may take; the session's timeout if it is not given"),
		}, "cmd"))
	}
	result := says("What became of the command", anObject(fields{
		"exit_code": aWhole("124 if its time was over, 128+n if a signal ended it"), "cwd": aText(""), "output": aText("What it printed"),
		"truncated": aFlag(""), "duration_ms": aWhole(""), "run_id": aText(""), "shell": {Type: "string", Enum: []any{"kept", "replaced"}},
		"output_encoding": {Type: "string", Enum: []any{"utf8", "base64"}}, "timed_out": aFlag(""), "message": aText(""),
	}, "exit_code", "cwd", "truncated", "duration_ms", "run_id", "timed_out"))
	list := inQuery("limit", "Most entries", aWhole(""))
	for _, op := range []*huma.Operation{
		{OperationID: "v1-create-session", Method: http.MethodPost, Path: sessions, Summary: "Create a session with a shell", RequestBody: takes(anObject(fields{
			"image": aText("The server's if it is not given"), "ttl_seconds": {Type: "number", Description: "Life after the last use"},
		})), Responses: map[string]*huma.Response{"201": answers("The session", "application/json", info)}},
		{OperationID: "v1-list-sessions", Method: http.MethodGet, Path: sessions, Summary: "List sessions, those that have ended too",
			Parameters: []*huma.Param{list, inQuery("offset", "Entries to skip", aWhole(""))}, Responses: says("The newest first", aList(info))},
		{OperationID: "v1-get-session", Method: http.MethodGet, Path: session, Summary: "Describe a session", Responses: says("The session", info)},
		{OperationID: "v1-destroy-session", Method: http.MethodDelete, Path: session, Summary: "Destroy a session", Responses: done},
		{OperationID: "v1-exec", Method: http.MethodPost, Path: session + "/exec", Summary: "Run a command in the session's shell",
			Description: "As POST /api/v1/sandbox/sessions/{session_id}/shell.", RequestBody: command(), Responses: result},
		{OperationID: "v1-exec-stream", Method: http.MethodPost, Path: session + "/exec/stream", Summary: "Run a command and follow what it prints",
			Description: "Server-sent events: start {run_id}, chunk {seq, stream, encoding, output}, and at last done or error.", RequestBody: command(),
			Responses: map[string]*huma.Response{"200": answers("The events", "text/event-stream", aText(""))}},
		{OperationID: "v1-write", Method: http.MethodPost, Path: session + "/fs/write", Summary: "Write a file", RequestBody: takes(anObject(fields{
			"path": aText(""), "text": aText("The file as text"), "content_base64": aText("The file as base64, in place of text"),
		}, "path")), Responses: done},
		{OperationID: "v1-read", Method: http.MethodGet, Path: session + "/fs/read", Summary: "Read a file",
			Parameters: []*huma.Param{path, inQuery("max_bytes", "How much of it; 1 MiB if it is not given, at most 32 MiB", aWhole(""))},
			Responses:  says("Its beginning", anObject(fields{"content_base64": aText(""), "truncated": aFlag("Whether the file goes on")}, "content_base64", "truncated"))},
		{OperationID: "v1-list-files", Method: http.MethodGet, Path: session + "/fs/list", Summary: "List files",
			Parameters: []*huma.Param{inQuery("path", "The folder; the workspace if it is not given", aText("")), inQuery("recursive", "Whether to list everything below", aFlag("")), list},
			Responses:  says("The entries", anObject(fields{"entries": aList(&huma.Schema{Ref: "#/components/schemas/FileEntry"}), "truncated": aFlag("Whether there are more")}, "entries", "truncated"))},
		{OperationID: "v1-delete-file", Method: http.MethodDelete, Path: session + "/fs/delete", Summary: "Delete a file or folder",
			Parameters: []*huma.Param{path, inQuery("recursive", "Whether a folder is deleted with all that is in it", aFlag(""))}, Responses: done},
	} {
		op.Tags = []string{"shell"}
		if op.Path != sessions {
			op.Parameters = append([]*huma.Param{id}, op.Parameters...)
		}
		doc.AddOperation(op)
	}
}

// declareThreads adds the thread API, which package thread serves (docs/compatibility.md#thread-api): its errors are flat.
func declareThreads(doc *huma.OpenAPI) {
	id, thread := aText("The session's id"), aText("The conversation's id, by which its session is found")
	failed := func() *huma.Response {
		return answers("What is wrong", "application/json", anObject(fields{"error": aText("For people"), "code": aText("A code of Belljar's, where there is one")}, "error"))
	}
	made := func(when ...string) *huma.Schema {
		f := fields{"session_id": id, "thread_id": thread, "status": aText("created, existing or active"), "workspace_dir": aText("/workspace"), "user": aText("sandboxuser")}
		for _, name := range when {
			f[name] = aTime("")
		}
		return anObject(f, append([]string{"session_id", "thread_id", "status", "workspace_dir"}, when...)...)
	}
	found := made("created_at", "last_activity")
	found.Properties["files_count"] = aWhole("Files in the workspace and its folders")
	entry := anObject(fields{"name": aText(""), "size_bytes": aWhole(""), "modified": aTime(""), "permissions": aText("As ls prints them")}, "name", "size_bytes", "modified", "permissions")
	session := inQuery("session_id", "The session's id", aText(""))
	of := inQuery("thread_id", "The conversation's id", aText(""))
	session.Required, of.Required = true, true
	named := func() *huma.RequestBody {
		return takes(anObject(fields{"session_id": id, "filename": aText("Place in the workspace")}, "session_id", "filename"))
	}
	for _, op := range []*huma.Operation{
		{OperationID: "thread-create-session", Method: http.MethodPost, Path: "/thread/create_session", Summary: "Create a thread's session",
			RequestBody: takes(anObject(fields{"user_id": aText("A label"), "thread_id": thread, "timeout_minutes": {Type: "number", Description: "Life after the last use; 30 if it is not given"}}, "user_id", "thread_id")),
			Responses: map[string]*huma.Response{
				"200": answers("A new session", "application/json", made("expires_at")), "409": answers("The one that the thread has", "application/json", made("created_at", "last_activity")),
			}},
		{OperationID: "thread-get-session", Method: http.MethodGet, Path: "/thread/get_session", Summary: "Find a thread's session", Parameters: []*huma.Param{of}, Responses: says("The session", found)},
		{OperationID: "thread-execute", Method: http.MethodPost, Path: "/thread/execute", Summary: "Run a bash command",
			Description: "The guard refuses with 400, and forbidden_pattern where a pattern matched. A command whose time is over has exit_code 124 and timed_out.",
			RequestBody: takes(anObject(fields{"session_id": id, "command": aText(""), "timeout": {Type: "number", Description: "Seconds; 30 if it is not given"}}, "session_id", "command")),
			Responses: says("What became of it", anObject(fields{
				"exit_code": aWhole(""), "stdout": aText(""), "stderr": aText(""), "execution_time_ms": aWhole(""), "timed_out": aFlag(""), "reason_code": aText(""),
				"stdout_truncated": aFlag(""), "stderr_truncated": aFlag(""),
			}, "exit_code", "stdout", "stderr", "execution_time_ms"))},
		{OperationID: "thread-upload-file", Method: http.MethodPost, Path: "/thread/upload_file", Summary: "Upload a file",
			Description: "413 for a file that is too large, 507 for a workspace that is full or has too many.",
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"multipart/form-data": {Schema: anObject(fields{
				"session_id": id, "file": {Type: "string", Format: "binary"}, "filename": aText("Place in the workspace, in place of the file's own name"),
			}, "session_id", "file")}}},
			Responses: says("The file", anObject(fields{"status": aText("uploaded"), "filename": aText(""), "path": aText(""), "size_bytes": aWhole("")}, "status", "filename", "path", "size_bytes"))},
		{OperationID: "thread-download-file", Method: http.MethodPost, Path: "/thread/download_file", Summary: "Download a file", RequestBody: named(),
			Responses: map[string]*huma.Response{"200": answers("Its bytes", "application/octet-stream", &huma.Schema{Type: "string", Format: "binary"})}},
		{OperationID: "thread-list-files", Method: http.MethodGet, Path: "/thread/list_files", Summary: "List the files of a workspace, the newest first", Parameters: []*huma.Param{session},
			Responses: says("The files", anObject(fields{
				"session_id": id, "workspace_dir": aText(""), "files": aList(entry), "total_files": aWhole(""), "total_size_bytes": aWhole(""), "truncated": aFlag(""),
			}, "session_id", "workspace_dir", "files", "total_files", "total_size_bytes"))},
		{OperationID: "thread-cleanup", Method: http.MethodPost, Path: "/thread/cleanup", Summary: "End a session", RequestBody: takes(anObject(fields{"session_id": id}, "session_id")),
			Responses: says("It is gone", anObject(fields{"status": aText("cleaned_up"), "session_id": id}, "status", "session_id"))},
		{OperationID: "thread-health", Method: http.MethodGet, Path: "/thread/health", Summary: "How is the node; without a key only status", Security: []map[string][]string{{}},
			Responses: says("Its figures", anObject(fields{
				"status": aText("healthy"), "worker_id": aText(""), "pool_size": aWhole(""), "pool_available": aWhole(""), "active_sessions": aWhole(""),
				"uptime_seconds": aWhole(""), "redis_connected": aFlag(""),
			}, "status"))},
	} {
		op.Tags = []string{"threads"}
		op.Responses["default"] = failed()
		doc.AddOperation(op)
	}
}
