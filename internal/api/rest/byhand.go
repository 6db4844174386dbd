package rest

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// declareByHand adds the operations that do not use huma: those with binary bodies, the probes, and those of other doors.
func (d *Door) declareByHand() {
	doc := d.api.OpenAPI()
	schemas := doc.Components.Schemas
	schema := func(t reflect.Type) *huma.Schema { return schemas.Schema(t, true, t.Name()) }
	text, bytes := &huma.Schema{Type: "string"}, &huma.Schema{Type: "string", Format: "binary"}
	schemas.Map()["Frame"] = frameSchema()
	frame := &huma.Schema{Ref: "#/components/schemas/Frame"}
	streaming := byTicket()
	open := []map[string][]string{{}}

	doc.AddOperation(&huma.Operation{
		OperationID: "upload-files", Method: "POST", Path: api.Prefix + "/sessions/{session_id}/files", Tags: []string{"sessions"},
		Summary: "Upload files into a session's workspace",
		Description: "Stores all files or, after an error, none. Archives are unpacked; those with `..`, absolute paths, links or devices are refused. " +
			"In a multipart body, files named .tar, .tar.gz, .tgz and .zip are unpacked, too, unless extract=false. A single file of any type needs path.",
		Parameters: []*huma.Param{
			inPath("session_id", "The session's id"),
			inQuery("path", "Path in the workspace of a single file", text),
			inQuery("dir", "Folder in the workspace to store the files in", text),
			inQuery("extract", "Whether to unpack archives; default true", &huma.Schema{Type: "boolean"}),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"multipart/form-data": {Schema: &huma.Schema{Type: "object", Properties: map[string]*huma.Schema{
				"files": {Type: "array", Items: bytes, Description: "The files; their names may have folders. files[] is the same"},
			}}},
			"application/x-tar": {Schema: bytes}, "application/gzip": {Schema: bytes}, "application/zip": {Schema: bytes},
			"application/octet-stream": {Schema: bytes},
		}},
		Responses: map[string]*huma.Response{"200": response("The stored files", "application/json", schema(reflect.TypeFor[belljar.UploadResult]()))},
	})
	d.declareFiles(doc)
	declareImages(doc)
	declareTunnel(doc)
	declareSnapshots(doc)
	declareShell(doc)
	declareShellSessions(doc)
	declareThreads(doc)
	declareWorkspaces(doc)
	declareLogin(doc)
	declareUsage(doc, schema(reflect.TypeFor[belljar.UsageSample]()))
	doc.AddOperation(&huma.Operation{
		OperationID: "get-artifact", Method: "GET", Path: api.Prefix + "/runs/{run_id}/artifacts/{path}", Tags: []string{"artifacts"}, Security: streaming,
		Summary: "Download an artifact",
		Description: "path may contain slashes. HEAD works, too. A request may have one Range, with If-Range; several ranges are answered with 416. " +
			"The media type is detected from the content. Text is compressed for clients that accept gzip and send no Range. " +
			"The header Belljar-File-Mode has the permission bits of the file in octal.",
		Parameters: []*huma.Param{
			inPath("run_id", "The run's id"), inPath("path", "The artifact's path, each segment percent-encoded"),
			inHeader("Range", "bytes=first-last, bytes=first- or bytes=-length"), inHeader("If-Range", "The ETag of the file that the range is for"), inHeader("If-None-Match", "ETags that the client has cached"), downloadToken(),
		},
		Responses: map[string]*huma.Response{
			"200": response("The file", "*/*", bytes),
			"206": response("One range of the file, see Content-Range", "*/*", bytes),
			"304": {Description: "The client's copy is current"},
			"416": {Ref: "#/components/responses/Failure"},
		},
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "stream-run", Method: "GET", Path: api.Prefix + "/runs/{run_id}/stream", Tags: []string{"streams"}, Security: streaming,
		Summary: "Follow a run over a WebSocket",
		Description: "Every message is one Frame as JSON text, at most 64 KB. The stream starts with seq 1 by default and closes with 1000 after the end event. " +
			"If requested frames were removed, an event `resume` comes before the first frame. To an interactive run the client may send " +
			"`{\"type\":\"stdin\",\"encoding\":\"utf8|base64\",\"data\":…}` and `{\"type\":\"stdin_close\"}`. Close codes: 1000 end of log, 1001 server shutting down, " +
			"1003, 1007, 1008 and 1009 invalid message, 1011 server error, 1013 slow reader, 4001 credentials revoked or expired; after 1001, 1011 and 1013 reconnect with since_seq.",
		Parameters: append(streamParams(), inPath("run_id", "The run's id"), inQuery("exp", "Expiry of a signed URL, which only reads", text)),
		Responses:  map[string]*huma.Response{"101": {Description: "A stream of frames"}},
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "get-run-logs", Method: "GET", Path: api.Prefix + "/runs/{run_id}/logs", Tags: []string{"streams"}, Security: streaming,
		Summary: "Read or follow a run's log without a WebSocket",
		Description: "Text by default, frames as NDJSON with format=json, server-sent events with `Accept: text/event-stream` (id is the seq, " +
			"Last-Event-ID resumes). Stops at the log's current end, unless follow=true; server-sent events always follow.",
		Parameters: append(streamParams(), inPath("run_id", "The run's id"),
			inQuery("format", "text or json", &huma.Schema{Type: "string", Enum: []any{"text", "json"}}),
			inQuery("stream", "Only this stream, as text", &huma.Schema{Type: "string", Enum: []any{"stdout", "stderr"}}),
			inQuery("follow", "Whether to wait for further output", &huma.Schema{Type: "boolean"}),
			inQuery("exp", "Expiry of a signed URL, which only reads", text), inHeader("Last-Event-ID", "The last seq that a client of server-sent events has")),
		Responses: map[string]*huma.Response{
			"200": {Description: "The log", Content: map[string]*huma.MediaType{
				"text/plain": {Schema: bytes}, "application/x-ndjson": {Schema: frame}, "text/event-stream": {Schema: text},
			}},
			"204": {Description: "The log has ended; do not reconnect"},
		},
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "create-ticket", Method: "POST", Path: api.Prefix + "/tickets", Tags: []string{"streams"},
		Summary: "Get a ticket for one stream or download",
		Description: "For clients that cannot set headers, and links of a browser: send the token as ?token=. It works once, within 60 seconds, for one stream or " +
			"download of this caller. A download needs a ticket for its path and query.",
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: "object", Properties: map[string]*huma.Schema{
			"path": {Type: "string", Description: "The path and query of the URL that the ticket is valid for; a stream accepts one without a query, too"},
		}}}}},
		Responses: map[string]*huma.Response{"200": response("The ticket", "application/json", &huma.Schema{
			Type: "object", Required: []string{"token", "expires_at"},
			Properties: map[string]*huma.Schema{"token": text, "expires_at": {Type: "string", Format: "date-time"}},
		})},
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "healthz", Method: "GET", Path: "/healthz", Tags: []string{"probes"}, Security: open, Summary: "Report that the server is alive",
		Responses: map[string]*huma.Response{"200": response("It is", "application/json", schema(reflect.TypeFor[health]()))},
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "readyz", Method: "GET", Path: "/readyz", Tags: []string{"probes"}, Security: open, Summary: "Report whether the server can work",
		Responses: map[string]*huma.Response{
			"200": response("It can", "application/json", schema(reflect.TypeFor[readiness]())),
			"503": response("The server cannot work; the checks give the reason", "application/json", schema(reflect.TypeFor[readiness]())),
		},
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "metrics", Method: "GET", Path: "/metrics", Tags: []string{"probes"}, Summary: "Metrics for Prometheus",
		Description: "For operators only, unless the server opens it to all callers.",
		Responses:   map[string]*huma.Response{"200": response("The metrics", "text/plain", text)},
	})
}

func response(description, media string, s *huma.Schema) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{media: {Schema: s}}}
}

func inPath(name, about string) *huma.Param {
	return &huma.Param{Name: name, In: "path", Required: true, Description: about, Schema: &huma.Schema{Type: "string"}}
}

func inHeader(name, about string) *huma.Param {
	return &huma.Param{Name: name, In: "header", Description: about, Schema: &huma.Schema{Type: "string"}}
}

func inQuery(name, about string, s *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: about, Schema: s}
}

// streamParams are the position and the token of a stream.
func streamParams() []*huma.Param {
	text := &huma.Schema{Type: "string"}
	return []*huma.Param{
		inQuery("from_seq", "The first seq to send, or tail for only new frames", text),
		inQuery("since_seq", "The last seq that the client has", &huma.Schema{Type: "integer", Minimum: new(float64)}),
		inQuery("token", "A ticket, or a signed URL's token", text),
	}
}

// downloadToken is the token of a download.
func downloadToken() *huma.Param {
	return inQuery("token", "A ticket for this path and query", &huma.Schema{Type: "string"})
}

// byTicket are the credentials of a download.
func byTicket() []map[string][]string {
	return []map[string][]string{{"key": {}}, {"bearer": {}}, {"token": {}}}
}

// frameSchema is the schema of a [belljar.Frame], which has its own MarshalJSON.
func frameSchema() *huma.Schema {
	return &huma.Schema{
		Type: "object", Required: []string{"type", "seq"},
		Description: "One entry of a run's log.",
		Properties: map[string]*huma.Schema{
			"type":     {Type: "string", Enum: []any{"stdout", "stderr", "result", "event", "heartbeat", "truncated"}, Description: "What the frame carries"},
			"seq":      {Type: "integer", Format: "int64", Description: "Position in the run's log, from 1 without a gap"},
			"encoding": {Type: "string", Enum: []any{"utf8", "base64"}, Description: "Encoding of data, in stdout, stderr and result"},
			"data":     {Description: "Output as a string, a result as a line of JSON or a piece of one, whose last piece ends with a newline, or an event's object"},
			"event": {Type: "string", Enum: []any{
				"phase", "start", "end", "error", "egress", "git", "approval", "packages", "build_start", "build_end", "resume", "stdin_closed",
			}, Description: "Which event"},
			"step":   {Type: "string", Enum: []any{belljar.StepBuild}, Description: "build if the compiler wrote the output"},
			"reason": {Type: "string", Description: "Why the log was cut"},
			"ts":     {Type: "string", Format: "date-time", Description: "Time of a heartbeat"},
		},
	}
}
