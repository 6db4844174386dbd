package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

const about = `Belljar runs untrusted code in sealed sandboxes, streams its output and keeps the files that it produces.

Bodies are JSON unless an operation states another type. Times are RFC 3339 in UTC. Sizes are in bytes, or in MiB if the name ends in _mb.
Unknown fields and query parameters are refused by name. An error is ` + "`{\"error\": {\"code\", \"message\", \"details\", \"hint\"}}`" + `, or RFC 7807 with
` + "`Accept: application/problem+json`" + `. 429 and 503 carry ` + "`Retry-After`" + `.`

// failure is the error envelope (docs/compatibility.md#errors).
type failure struct {
	Error belljar.Error `json:"error"`
}

// problem is an RFC 7807 error.
type problem struct {
	Type       string         `json:"type"`
	Title      string         `json:"title"`
	Detail     string         `json:"detail"`
	Status     int            `json:"status"`
	Extensions map[string]any `json:"extensions"`
}

// serveDocument serves the OpenAPI document in its formats. The first request completes it: most servers get none.
func (d *Door) serveDocument() error {
	doc := sync.OnceValue(d.document)
	d.open("GET /openapi.json", served("application/json", sync.OnceValues(func() ([]byte, error) { return json.MarshalIndent(doc(), "", "  ") })))
	d.open("GET /openapi.yaml", served("application/yaml", sync.OnceValues(func() ([]byte, error) { return doc().YAML() })))
	return d.page(doc)
}

// document completes the document that huma generated.
func (d *Door) document() *huma.OpenAPI {
	doc := d.api.OpenAPI()
	for _, b := range d.bodies {
		b.declare(doc)
	}
	doc.Info.Description = about
	doc.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	doc.Servers = []*huma.Server{{URL: d.opts.BasePath + "/"}}
	doc.Tags = []*huma.Tag{
		{Name: "runs", Description: "One execution of a command."},
		{Name: "artifacts", Description: "Files captured from a run."},
		{Name: "sessions", Description: "A sandbox that is kept between runs, with its workspace."},
		{Name: "images", Description: "Root file systems of sandboxes."},
		{Name: "files", Description: "The files of a session's workspace."},
		{Name: "terminals", Description: "Programs on a terminal in a session, which outlive their connections."},
		{Name: "ports", Description: "Programs of a session that listen, through a tunnel or a preview."},
		{Name: "contexts", Description: "Interpreters in a session that remember."},
		{Name: "snapshots", Description: "Saved files of sessions, copies, and hibernation."},
		{Name: "volumes", Description: "Workspaces on disk that outlive their sessions."},
		{Name: "templates", Description: "Images, packages, environment, limits and files by a name."},
		{Name: "secrets", Description: "Stored values that runs and sessions get."},
		{Name: "shell", Description: "Sessions with a shell, as a small API."},
		{Name: "threads", Description: "A session for each conversation. Errors are flat; also served at the root with SANDBOX_THREAD_API_ROOT."},
		{Name: "workspace", Description: "Files, search, git, terminals and chats of one workspace, for front ends; also below /workspace/{session_id}, and at the root with SANDBOX_WORKSPACE_API_ROOT. Errors have a detail. The WebSockets are /workspace/ws/pty and /workspace/ws/claude-stream."},
		{Name: "streams", Description: "A run's output, live."},
		{Name: "login", Description: "Sign-ins of the web page."},
		{Name: "node", Description: "This server, and the caller."},
		{Name: "admin", Description: "For operators."},
		{Name: "probes", Description: "For monitoring."},
	}
	doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key":    {Type: "apiKey", In: "header", Name: "X-API-KEY", Description: "An API key."},
		"bearer": {Type: "http", Scheme: "bearer", Description: "A JWT or an API key."},
		"token":  {Type: "apiKey", In: "query", Name: "token", Description: "A ticket or a signed URL's token, for streams."},
	}
	doc.Security = []map[string][]string{{"key": {}}, {"bearer": {}}}
	d.declareByHand()

	schemas := doc.Components.Schemas
	failed := &huma.Response{
		Description: errorCodes(),
		Content: map[string]*huma.MediaType{
			"application/json":         {Schema: schemas.Schema(reflect.TypeFor[failure](), true, "")},
			"application/problem+json": {Schema: schemas.Schema(reflect.TypeFor[problem](), true, "")},
		},
	}
	delete(schemas.Map(), "ErrorModel") // huma's error, which no response uses
	doc.Components.Responses = map[string]*huma.Response{"Failure": failed}
	for _, item := range doc.Paths {
		for _, op := range operations(item) {
			switch {
			case strings.HasPrefix(op.Path, "/thread/"), strings.HasPrefix(op.Path, "/workspace/"): // declares its own errors
			case !strings.HasPrefix(op.Path, "/healthz") && !strings.HasPrefix(op.Path, "/readyz"):
				op.Responses["default"] = &huma.Response{Ref: "#/components/responses/Failure"}
			default:
				delete(op.Responses, "default")
			}
		}
	}
	if item := doc.Paths[api.Prefix+"/runs"]; item != nil {
		ok := item.Post.Responses["200"]
		ok.Description = "The run's current state, or its final state if the request waited for its end."
		item.Post.Responses["202"] = &huma.Response{Description: "The run is queued, or had not ended when the wait was over.", Content: ok.Content}
	}
	loosen(doc)
	annotate(schemas.Map())
	return doc
}

func served(media string, content func() ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := content()
		if err != nil {
			api.Fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", media)
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(b) // fails only if the client is gone
	}
}

// operations are the operations of a path, ordered by method.
func operations(item *huma.PathItem) []*huma.Operation {
	return slices.DeleteFunc([]*huma.Operation{item.Get, item.Head, item.Post, item.Put, item.Delete}, func(op *huma.Operation) bool { return op == nil })
}

func errorCodes() string {
	var b strings.Builder
	b.WriteString("An error. By code:\n\n")
	for _, row := range belljar.Table() {
		fmt.Fprintf(&b, "- `%s` (%d): %s\n", row.Code, row.HTTP, row.Advice)
	}
	return b.String()
}

// loosen corrects the schemas: lists are never null, and only requests reject unknown fields, so that responses can gain
// fields later.
func loosen(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas.Map()
	asked := map[string]bool{}
	for _, item := range doc.Paths {
		for _, op := range operations(item) {
			for _, p := range op.Parameters {
				p.Schema.PatternDescription = "" // huma's extension, already used for its messages
			}
			if op.RequestBody == nil {
				continue
			}
			for _, media := range op.RequestBody.Content {
				reach(media.Schema, schemas, asked)
			}
		}
	}
	for name, s := range schemas {
		if strict, ok := s.AdditionalProperties.(bool); ok && !strict && !asked[name] {
			s.AdditionalProperties = nil
		}
		for _, p := range s.Properties {
			if p.Type == huma.TypeArray {
				p.Nullable = false
			}
		}
	}
	// The service checks it, so the type does not require it.
	if s := schemas["RunSpec"]; s != nil {
		s.Required = append(s.Required, "spec_version")
	}
	// Only a request that waited for the run has the output.
	for _, name := range []string{"StartedRun", "Executed"} {
		s := schemas[name]
		if s == nil {
			continue
		}
		s.Required = slices.DeleteFunc(s.Required, func(name string) bool {
			return strings.HasPrefix(name, "stdout") || strings.HasPrefix(name, "stderr")
		})
	}
}

// reach marks the schemas that s refers to, directly or not.
func reach(s *huma.Schema, all map[string]*huma.Schema, marked map[string]bool) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok && !marked[name] {
		marked[name] = true
		reach(all[name], all, marked)
	}
	for _, p := range s.Properties {
		reach(p, all, marked)
	}
	reach(s.Items, all, marked)
	if p, ok := s.AdditionalProperties.(*huma.Schema); ok {
		reach(p, all, marked)
	}
}
