package rest

import (
	"maps"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// declareWorkspaces adds the workspace API of package workspace (docs/workspace.md), whose errors are {"detail": …}.
func declareWorkspaces(doc *huma.OpenAPI) {
	const at = "/workspace/api"
	reason := response("What went wrong: a text, or for a request that lacks something a list of loc, msg and type", "application/json",
		objectOf(fields{"detail": {Description: "A text or a list"}}, "detail"))
	text, number, flag := textField, integerField, booleanField
	path := func(required bool) *huma.Param {
		p := inQuery("path", "A path in the workspace, relative to it", text(""))
		p.Required = required
		return p
	}
	query := inQuery("q", "A pattern for names: *, ?, [abc], [!abc]; case does not matter. Without content it is required", text(""))
	content := inQuery("content", "A text of at most 1,024 bytes to find in files", text(""))
	file := objectOf(fields{
		"content": {Type: "string", Nullable: true}, "path": text(""), "error": text("Why there is no content"), "truncated": flag("Whether content is the beginning"),
		"binary": flag("Whether it is not text"), "size": number("Bytes of the file, if it is truncated or binary"),
	}, "content", "path")
	changed := func(names ...string) map[string]*huma.Response {
		f := fields{"success": flag("true")}
		for _, name := range names {
			f[name] = text("")
		}
		return jsonResponse("Done", objectOf(f, append([]string{"success"}, names...)...))
	}
	limits := fields{"truncated": flag("Whether a bound was reached"), "truncation_reason": {Type: "string", Enum: []any{"node_limited", "depth_limited", "time_limited"}}}
	with := func(f fields) fields {
		maps.Copy(f, limits)
		return f
	}
	session := func() *huma.Schema { return text("A token; a pending one is of a session that its first use makes") }
	for _, op := range []*huma.Operation{
		{OperationID: "workspace-tree", Method: http.MethodGet, Path: at + "/tree", Summary: "List a folder", Parameters: []*huma.Param{path(false)},
			Responses: jsonResponse("Its entries, folders first", objectOf(with(fields{
				"entries": listOf(objectOf(fields{"name": text(""), "path": text(""), "is_dir": flag(""), "size": number("Of a file, in bytes")}, "name", "path", "is_dir")),
				"path":    text(""), "total_visited": number("Entries listed, if a bound was reached"),
			}), "entries", "path"))},
		{OperationID: "workspace-read-file", Method: http.MethodGet, Path: at + "/file", Summary: "Read a file", Parameters: []*huma.Param{path(true)}, Responses: jsonResponse("Its text, at most 5 MiB", file)},
		{OperationID: "workspace-write-file", Method: http.MethodPut, Path: at + "/file", Summary: "Write a file", Parameters: []*huma.Param{path(true), inHeader("If-Match", "ETags of reads or writes: the file is replaced only if it has one of them; else 412"), inHeader("If-None-Match", "With *, nothing is replaced: a file that exists is 412")},
			RequestBody: jsonBody(objectOf(fields{"content": text("")}, "content")), Responses: changed("path")},
		{OperationID: "workspace-delete-file", Method: http.MethodDelete, Path: at + "/file", Summary: "Delete a file, or a folder with all in it", Parameters: []*huma.Param{path(true)}, Responses: changed("path")},
		{OperationID: "workspace-rename-file", Method: http.MethodPost, Path: at + "/file/rename", Summary: "Give a file another path",
			RequestBody: jsonBody(objectOf(fields{"old_path": text(""), "new_path": text("")}, "old_path", "new_path")), Responses: changed("old_path", "new_path")},
		{OperationID: "workspace-move-file", Method: http.MethodPost, Path: at + "/file/move", Summary: "Move a file to a folder",
			RequestBody: jsonBody(objectOf(fields{"src_path": text(""), "dest_dir": text("")}, "src_path", "dest_dir")), Responses: changed("old_path", "dest_path")},
		{OperationID: "workspace-search", Method: http.MethodGet, Path: at + "/search", Summary: "Look for files by name, or for lines with a text", Parameters: []*huma.Param{query, content, path(false)},
			Responses: jsonResponse("What was found", objectOf(with(fields{
				"results": listOf(objectOf(fields{
					"name": text(""), "path": text(""), "dir": text(""), "line": number("Of a find by content, from 1"), "text": text("The line, at most 500 bytes of it"),
				}, "name", "path", "dir")), "pattern": text(""), "path": text(""),
			}), "results", "pattern", "path"))},
		{OperationID: "workspace-git-status", Method: http.MethodGet, Path: at + "/git/status", Summary: "List what has changed since the last commit",
			Responses: jsonResponse("M, A, D, U (untracked) or C (conflict) by path; without a repository, files is an empty list", objectOf(fields{
				"is_repo": flag(""), "available": flag("Whether there is git"), "files": {Description: "An object, or an empty list"}, "truncated": flag(""),
			}, "is_repo", "files"))},
		{OperationID: "workspace-git-diff", Method: http.MethodGet, Path: at + "/git/diff", Summary: "Compare a file with the last commit", Parameters: []*huma.Param{path(true)},
			Responses: jsonResponse("A unified diff", objectOf(fields{"diff": text(""), "path": text(""), "error": text(""), "truncated": flag("")}, "diff", "path"))},
		{OperationID: "workspace-git-show", Method: http.MethodGet, Path: at + "/git/show", Summary: "Read a file of the last commit", Parameters: []*huma.Param{path(true)}, Responses: jsonResponse("Its text", file)},
		{OperationID: "workspace-list-sessions", Method: http.MethodGet, Path: at + "/sessions", Summary: "List terminals and chats",
			Responses: jsonResponse("Those that live", objectOf(fields{"sessions": listOf(objectOf(fields{
				"id": session(), "type": {Type: "string", Enum: []any{"pty", "stream"}}, "alive": flag(""), "clients": number(""), "history_count": number("Entries of a chat's log"), "name": text(""),
			}, "id", "type", "alive", "clients", "history_count"))}, "sessions"))},
		{OperationID: "workspace-new-session", Method: http.MethodPost, Path: at + "/sessions", Summary: "Make a token for a terminal or a chat to be",
			Responses: jsonResponse("The token", objectOf(fields{"session_id": session()}, "session_id"))},
		{OperationID: "workspace-config", Method: http.MethodGet, Path: at + "/config", Summary: "Describe the workspace",
			Responses: jsonResponse("Its root, mode and programs", objectOf(fields{
				"workspace_root": text(""), "workspace_mode": {Type: "string", Enum: []any{"sandbox", "local", "remote"}}, "pty_providers": listOf(text("")),
				"paths": objectOf(fields{"files": text("")}, "files"), "isolated": flag("Whether programs run in a sandbox"),
			}, "workspace_root", "workspace_mode", "pty_providers", "paths", "isolated"))},
		{OperationID: "workspace-project", Method: http.MethodGet, Path: at + "/project", Summary: "Name the root of the workspace", Responses: jsonResponse("The root", objectOf(fields{"root": text("")}, "root"))},
		{OperationID: "workspace-capabilities", Method: http.MethodGet, Path: at + "/capabilities", Summary: "List what the API can do here",
			Responses: jsonResponse("Features and routes", objectOf(fields{
				"version": text(""), "features": {Type: "object", AdditionalProperties: flag("")},
				"routers": listOf(objectOf(fields{"name": text(""), "prefix": text(""), "enabled": flag("")}, "name", "prefix", "enabled")),
			}, "version", "features", "routers"))},
		{OperationID: "workspace-health", Method: http.MethodGet, Path: "/workspace/healthz", Summary: "Answer a server that depends on this one",
			Responses: jsonResponse("It works", objectOf(fields{"status": text("ok")}, "status"))},
		{OperationID: "workspace-version", Method: http.MethodGet, Path: "/workspace/__meta/version", Summary: "Tell the version of this API, also in X-Workspace-API-Version",
			Responses: jsonResponse("The version", objectOf(fields{"version": text("")}, "version"))},
		{OperationID: "workspace-login", Method: http.MethodPost, Path: at + "/login", Summary: "Exchange a key for a cookie of this API",
			Responses: jsonResponse("The cookie is set", objectOf(fields{"success": flag("true"), "expires_at": timeField("")}, "success", "expires_at"))},
		{OperationID: "workspace-logout", Method: http.MethodPost, Path: at + "/logout", Summary: "End the cookie", Security: []map[string][]string{{}}, Responses: changed()},
	} {
		op.Tags = []string{"workspace"}
		op.Responses["default"] = reason
		doc.AddOperation(op)
	}
}
