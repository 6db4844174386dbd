package rest

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar/internal/api"
)

// declareShell adds the operation of package shell, whose response may be a stream.
func declareShell(doc *huma.OpenAPI) {
	text, whole, flag := &huma.Schema{Type: "string"}, &huma.Schema{Type: "integer", Format: "int64"}, &huma.Schema{Type: "boolean"}
	doc.AddOperation(&huma.Operation{
		OperationID: "shell", Method: "POST", Path: api.Prefix + "/sessions/{session_id}/shell", Tags: []string{"sessions"},
		Summary: "Run a command in a session's shell",
		Description: "The shell (bash; sh in an image without it) keeps its directory, variables, functions and background jobs from one command to " +
			"the next. Commands of one session run one after the other. They read /dev/null unless stdin is set, and write to a terminal, " +
			"or with separate to two pipes. A command that times out is interrupted and has exit_code 124; shell reports whether the shell survived " +
			"(kept) or the next command finds a new one (replaced). With `Accept: text/event-stream` the events are start {run_id}, chunk " +
			"{seq, stream, encoding, output} as output comes, and at last done (the answer without output) or error; ids are the seq of the run's " +
			"log, from which a lost stream is resumed with since_seq. A command continues if its client disconnects; it is a run, and cancelled as one.",
		Parameters: []*huma.Param{
			inPath("session_id", "The session's id"),
			inHeader("Idempotency-Key", "Repeats of this request with the same key return the first one's answer; at most 128 characters"),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: "object", Required: []string{"cmd"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{
				"cmd":        {Type: "string", Description: "A line or a whole script, at most 1 MiB; lines may end with CR LF"},
				"timeout_ms": {Type: "integer", Format: "int64", Description: "Limit for the command, in milliseconds; default: the session's timeout"},
				"separate":   {Type: "boolean", Description: "Whether stdout and stderr are separate pipes, rather than one terminal"},
				"stdin":      {Type: "string", Description: "The command's whole standard input"},
			},
		}}}},
		Responses: map[string]*huma.Response{"200": {
			Description: "The command's result",
			Content: map[string]*huma.MediaType{
				"application/json": {Schema: &huma.Schema{
					Type: "object", Required: []string{"exit_code", "cwd", "truncated", "duration_ms", "run_id", "timed_out"},
					Properties: map[string]*huma.Schema{
						"exit_code": whole, "cwd": text, "output": text, "truncated": flag, "duration_ms": whole, "run_id": text,
						"shell":           {Type: "string", Enum: []any{"kept", "replaced"}},
						"program":         {Type: "string", Enum: []any{"bash", "sh"}},
						"output_encoding": {Type: "string", Enum: []any{"utf8", "base64"}},
						"stdout":          text, "stdout_encoding": text, "stdout_truncated": flag,
						"stderr": text, "stderr_encoding": text, "stderr_truncated": flag,
						"timed_out": flag, "signal": text, "reason_code": text, "message": text, "hint": text,
						"warnings": {Type: "array", Items: text},
					},
				}},
				"text/event-stream": {Schema: text},
			},
		}},
	})
}
