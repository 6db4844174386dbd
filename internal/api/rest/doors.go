package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Schemas for operations that are declared by hand.
func textField(about string) *huma.Schema { return &huma.Schema{Type: "string", Description: about} }
func integerField(about string) *huma.Schema {
	return &huma.Schema{Type: "integer", Format: "int64", Description: about}
}
func booleanField(about string) *huma.Schema {
	return &huma.Schema{Type: "boolean", Description: about}
}
func timeField(about string) *huma.Schema {
	return &huma.Schema{Type: "string", Format: "date-time", Description: about}
}
func listOf(of *huma.Schema) *huma.Schema { return &huma.Schema{Type: "array", Items: of} }

type fields = map[string]*huma.Schema

// objectOf returns the schema of an object; the fields in always are required.
func objectOf(f fields, always ...string) *huma.Schema {
	return &huma.Schema{Type: "object", Properties: f, Required: always}
}

// jsonBody declares a JSON request body.
func jsonBody(s *huma.Schema) *huma.RequestBody {
	s.AdditionalProperties = false
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: s}}}
}

// jsonResponse declares a JSON response.
func jsonResponse(about string, s *huma.Schema) map[string]*huma.Response {
	return map[string]*huma.Response{"200": response(about, "application/json", s)}
}

// declareShellSessions adds the shell API of package shell (docs/compatibility.md#shell-api).
func declareShellSessions(doc *huma.OpenAPI) {
	const sessions, session = "/v1/sessions", "/v1/sessions/{id}"
	id := inPath("id", "The session's id")
	path, done := inQuery("path", "The file or folder: x and /workspace/x are the same", textField("")), jsonResponse("Done", objectOf(fields{"ok": booleanField("true")}, "ok"))
	path.Required = true
	info := objectOf(fields{
		"id": textField(""), "image": textField(""), "status": {Type: "string", Enum: []any{"running", "expired", "destroyed", "crashed"}},
		"cwd": textField("The shell's directory, after its last command"), "created_at": timeField(""), "expires_at": timeField(""), "last_activity": timeField(""),
	}, "id", "image", "status", "cwd", "created_at", "expires_at", "last_activity")
	command := func() *huma.RequestBody {
		return jsonBody(objectOf(fields{
			"cmd": textField("A line or a whole script, at most 1 MiB"), "timeout_ms": integerField("Limit for the command, in milliseconds; default: the session's timeout"),
		}, "cmd"))
	}
	result := jsonResponse("The command's result", objectOf(fields{
		"exit_code": integerField("124 if it was ended by its timeout, 128+n if a signal ended it"), "cwd": textField(""), "output": textField("Its output"),
		"truncated": booleanField(""), "duration_ms": integerField(""), "run_id": textField(""), "shell": {Type: "string", Enum: []any{"kept", "replaced"}},
		"output_encoding": {Type: "string", Enum: []any{"utf8", "base64"}}, "timed_out": booleanField(""), "message": textField(""),
	}, "exit_code", "cwd", "truncated", "duration_ms", "run_id", "timed_out"))
	list := inQuery("limit", "Most entries", integerField(""))
	for _, op := range []*huma.Operation{
		{OperationID: "v1-create-session", Method: http.MethodPost, Path: sessions, Summary: "Create a session with a shell", RequestBody: jsonBody(objectOf(fields{
			"image": textField("Default: the server's default image"), "ttl_seconds": {Type: "number", Description: "Lifetime after the last use"},
		})), Responses: map[string]*huma.Response{"201": response("The session", "application/json", info)}},
		{OperationID: "v1-list-sessions", Method: http.MethodGet, Path: sessions, Summary: "List sessions, including ended ones",
			Parameters: []*huma.Param{list, inQuery("offset", "Entries to skip", integerField(""))}, Responses: jsonResponse("The newest first", listOf(info))},
		{OperationID: "v1-get-session", Method: http.MethodGet, Path: session, Summary: "Describe a session", Responses: jsonResponse("The session", info)},
		{OperationID: "v1-destroy-session", Method: http.MethodDelete, Path: session, Summary: "Destroy a session", Responses: done},
		{OperationID: "v1-exec", Method: http.MethodPost, Path: session + "/exec", Summary: "Run a command in the session's shell",
			Description: "As POST /api/v1/sandbox/sessions/{session_id}/shell.", RequestBody: command(), Responses: result},
		{OperationID: "v1-exec-stream", Method: http.MethodPost, Path: session + "/exec/stream", Summary: "Run a command and follow its output",
			Description: "Server-sent events: start {run_id}, chunk {seq, stream, encoding, output}, and at last done or error.", RequestBody: command(),
			Responses: map[string]*huma.Response{"200": response("The events", "text/event-stream", textField(""))}},
		{OperationID: "v1-write", Method: http.MethodPost, Path: session + "/fs/write", Summary: "Write a file", RequestBody: jsonBody(objectOf(fields{
			"path": textField(""), "text": textField("The file as text"), "content_base64": textField("The file as base64, instead of text"),
		}, "path")), Responses: done},
		{OperationID: "v1-read", Method: http.MethodGet, Path: session + "/fs/read", Summary: "Read a file",
			Parameters: []*huma.Param{path, inQuery("max_bytes", "Most bytes to read; default 1 MiB, at most 32 MiB", integerField(""))},
			Responses:  jsonResponse("Its beginning", objectOf(fields{"content_base64": textField(""), "truncated": booleanField("Whether the file has more bytes")}, "content_base64", "truncated"))},
		{OperationID: "v1-list-files", Method: http.MethodGet, Path: session + "/fs/list", Summary: "List files",
			Parameters: []*huma.Param{inQuery("path", "The folder; default: the workspace", textField("")), inQuery("recursive", "Whether to list its subfolders, too", booleanField("")), list},
			Responses:  jsonResponse("The entries", objectOf(fields{"entries": listOf(&huma.Schema{Ref: "#/components/schemas/FileEntry"}), "truncated": booleanField("Whether there are more entries")}, "entries", "truncated"))},
		{OperationID: "v1-delete-file", Method: http.MethodDelete, Path: session + "/fs/delete", Summary: "Delete a file or folder",
			Parameters: []*huma.Param{path, inQuery("recursive", "Whether to delete a folder with its contents", booleanField(""))}, Responses: done},
	} {
		op.Tags = []string{"shell"}
		if op.Path != sessions {
			op.Parameters = append([]*huma.Param{id}, op.Parameters...)
		}
		doc.AddOperation(op)
	}
}

// declareThreads adds the thread API of package thread (docs/compatibility.md#thread-api), whose errors are flat.
func declareThreads(doc *huma.OpenAPI) {
	id, thread := textField("The session's id"), textField("The conversation's id, by which its session is found")
	failed := func() *huma.Response {
		return response("The error", "application/json", objectOf(fields{"error": textField("The message"), "code": textField("Belljar's error code, if there is one")}, "error"))
	}
	made := func(when ...string) *huma.Schema {
		f := fields{"session_id": id, "thread_id": thread, "status": textField("created, existing or active"), "workspace_dir": textField("/workspace"), "user": textField("sandboxuser")}
		for _, name := range when {
			f[name] = timeField("")
		}
		return objectOf(f, append([]string{"session_id", "thread_id", "status", "workspace_dir"}, when...)...)
	}
	found := made("created_at", "last_activity")
	found.Properties["files_count"] = integerField("Files in the workspace and its folders")
	entry := objectOf(fields{"name": textField(""), "size_bytes": integerField(""), "modified": timeField(""), "permissions": textField("As ls prints them")}, "name", "size_bytes", "modified", "permissions")
	session := inQuery("session_id", "The session's id", textField(""))
	of := inQuery("thread_id", "The conversation's id", textField(""))
	session.Required, of.Required = true, true
	named := func() *huma.RequestBody {
		return jsonBody(objectOf(fields{"session_id": id, "filename": textField("Path in the workspace")}, "session_id", "filename"))
	}
	for _, op := range []*huma.Operation{
		{OperationID: "thread-create-session", Method: http.MethodPost, Path: "/thread/create_session", Summary: "Create a thread's session",
			RequestBody: jsonBody(objectOf(fields{"user_id": textField("A label"), "thread_id": thread, "timeout_minutes": {Type: "number", Description: "Lifetime after the last use, in minutes; default 30"}}, "user_id", "thread_id")),
			Responses: map[string]*huma.Response{
				"200": response("A new session", "application/json", made("expires_at")), "409": response("The thread's existing session", "application/json", made("created_at", "last_activity")),
			}},
		{OperationID: "thread-get-session", Method: http.MethodGet, Path: "/thread/get_session", Summary: "Find a thread's session", Parameters: []*huma.Param{of}, Responses: jsonResponse("The session", found)},
		{OperationID: "thread-execute", Method: http.MethodPost, Path: "/thread/execute", Summary: "Run a bash command",
			Description: "The guard refuses with 400, and with forbidden_pattern if a pattern matched. A command that times out has exit_code 124 and timed_out.",
			RequestBody: jsonBody(objectOf(fields{"session_id": id, "command": textField(""), "timeout": {Type: "number", Description: "In seconds; default 30"}}, "session_id", "command")),
			Responses: jsonResponse("What became of it", objectOf(fields{
				"exit_code": integerField(""), "stdout": textField(""), "stderr": textField(""), "execution_time_ms": integerField(""), "timed_out": booleanField(""), "reason_code": textField(""),
				"stdout_truncated": booleanField(""), "stderr_truncated": booleanField(""),
			}, "exit_code", "stdout", "stderr", "execution_time_ms"))},
		{OperationID: "thread-upload-file", Method: http.MethodPost, Path: "/thread/upload_file", Summary: "Upload a file",
			Description: "413 for a file that is too large, 507 for a workspace that is full or has too many files.",
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"multipart/form-data": {Schema: objectOf(fields{
				"session_id": id, "file": {Type: "string", Format: "binary"}, "filename": textField("Path in the workspace; default: the file's own name"),
			}, "session_id", "file")}}},
			Responses: jsonResponse("The file", objectOf(fields{"status": textField("uploaded"), "filename": textField(""), "path": textField(""), "size_bytes": integerField("")}, "status", "filename", "path", "size_bytes"))},
		{OperationID: "thread-download-file", Method: http.MethodPost, Path: "/thread/download_file", Summary: "Download a file", RequestBody: named(),
			Responses: map[string]*huma.Response{"200": response("Its bytes", "application/octet-stream", &huma.Schema{Type: "string", Format: "binary"})}},
		{OperationID: "thread-list-files", Method: http.MethodGet, Path: "/thread/list_files", Summary: "List the files of a workspace, the newest first", Parameters: []*huma.Param{session},
			Responses: jsonResponse("The files", objectOf(fields{
				"session_id": id, "workspace_dir": textField(""), "files": listOf(entry), "total_files": integerField(""), "total_size_bytes": integerField(""), "truncated": booleanField(""),
			}, "session_id", "workspace_dir", "files", "total_files", "total_size_bytes"))},
		{OperationID: "thread-cleanup", Method: http.MethodPost, Path: "/thread/cleanup", Summary: "End a session", RequestBody: jsonBody(objectOf(fields{"session_id": id}, "session_id")),
			Responses: jsonResponse("The session has ended", objectOf(fields{"status": textField("cleaned_up"), "session_id": id}, "status", "session_id"))},
		{OperationID: "thread-health", Method: http.MethodGet, Path: "/thread/health", Summary: "Report the node's health; without a key only status", Security: []map[string][]string{{}},
			Responses: jsonResponse("Its figures", objectOf(fields{
				"status": textField("healthy"), "worker_id": textField(""), "pool_size": integerField(""), "pool_available": integerField(""), "active_sessions": integerField(""),
				"uptime_seconds": integerField(""), "redis_connected": booleanField(""),
			}, "status"))},
	} {
		op.Tags = []string{"threads"}
		op.Responses["default"] = failed()
		doc.AddOperation(op)
	}
}
