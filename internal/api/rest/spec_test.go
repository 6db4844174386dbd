package rest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
)

var update = flag.Bool("update", false, "write spec/openapi.yaml anew")

const specFile = "../../../spec/openapi.yaml"

// TestSpec checks that the committed document is the one that the server serves.
func TestSpec(t *testing.T) {
	b := newBench(t)
	got := b.get("/openapi.yaml", "")
	if *update {
		if err := os.MkdirAll(filepath.Dir(specFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(specFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(specFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("spec/openapi.yaml is stale: go test ./internal/api/rest -run TestSpec -update")
	}
}

func TestSpecIsValid(t *testing.T) {
	doc := loadDocument(t)
	if err := doc.Validate(t.Context(), openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s: id %q, summary %q, tags %v", method, path, op.OperationID, op.Summary, op.Tags)
			}
			ids[op.OperationID] = true
			for _, p := range op.Parameters {
				if p.Value.Description == "" && len(p.Value.Schema.Value.Enum) == 0 {
					t.Errorf("%s %s: no description of %s", method, path, p.Value.Name)
				}
			}
		}
	}
	for name, s := range doc.Components.Schemas {
		for field, p := range s.Value.Properties {
			if p.Ref == "" && p.Value.Description == "" {
				t.Errorf("no description of %s.%s: words.go", name, field)
			}
		}
	}
	if len(ids) < 25 {
		t.Errorf("only %d operations", len(ids))
	}
}

// The document allows no empty text where the server refuses it.
func TestSpecOfEmptyText(t *testing.T) {
	b, doc := newEngine(t), loadDocument(t)
	var session struct {
		ID string `json:"session_id"`
	}
	b.ask(200, "POST", "/sessions", "root", `{"spec_version": "1.1", "base_image": "host"}`, &session)
	for _, c := range [][2]string{
		{"images/pull", `{"ref": ""}`}, {"images/tag", `{"ref": "host", "name": ""}`}, {"network/check", `{"url": ""}`}, {"sessions/close", `{"key_prefix": ""}`},
		{"templates", `{"name": "", "base_image": "host"}`}, {"templates", `{"name": "a", "base_image": ""}`}, {"volumes", `{"name": "", "mb": 8}`},
		{"runs", `{"spec_version": "1.1", "base_image": "host", "command": ["true"], "files": [{"path": "", "content_b64": ""}]}`},
		{"runs", `{"spec_version": "1.1", "base_image": "host", "command": ["true"], "git": {"url": ""}}`},
		{"sessions", `{"spec_version": "1.1", "base_image": "host", "scope": {"namespace": "agent", "id": ""}}`},
		{"sessions/{session_id}/fs/rename", `{"from": "a", "to": ""}`}, {"sessions/{session_id}/fs/mkdir", `{"path": ""}`}, {"sessions/{session_id}/contexts", `{"language": ""}`},
	} {
		path := api.Prefix + "/" + c[0]
		var body any
		if err := json.Unmarshal([]byte(c[1]), &body); err != nil {
			t.Fatal(err)
		}
		if doc.Paths.Value(path).Post.RequestBody.Value.Content.Get("application/json").Schema.Value.VisitJSON(body) == nil {
			t.Errorf("the document allows %s of %s", c[1], path)
		}
		resp := b.send(http.MethodPost, strings.Replace(path, "{session_id}", session.ID, 1), "root", nil, c[1])
		if text := read(t, resp); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s with %s answers %d %s", path, c[1], resp.StatusCode, text)
		}
	}
}

// TestPlainEveryRouteIsDocumented checks that every operation in the document exists and requires authentication.
func TestPlainEveryRouteIsDocumented(t *testing.T) {
	b := newBench(t)
	elsewhere := []string{"stream-run", "get-run-logs", "watch-run-usage", "watch-session-usage", "open-tunnel", "create-ticket", "shell"} // in other doors
	for path, item := range loadDocument(t).Paths.Map() {
		for method, op := range item.Operations() {
			if slices.Contains(elsewhere, op.OperationID) || op.Tags[0] == "login" || op.Tags[0] == "shell" || op.Tags[0] == "threads" || op.Tags[0] == "workspace" {
				continue // test/e2e covers the whole server
			}
			path := strings.NewReplacer("{session_id}", "x", "{run_id}", "x", "{user_id}", "x", "{token_id}", "x", "{path}", "a/b").Replace(path)
			if allowed := b.send("BREW", path, "root", nil, "").Header.Get("Allow"); !slices.Contains(strings.Split(allowed, ", "), method) {
				t.Errorf("%s allows %q, not %s", path, allowed, method)
			}
			resp := b.send(method, path, "", nil, "")
			open := len(*securityOf(op)) == 1 && len((*securityOf(op))[0]) == 0
			if want := http.StatusUnauthorized; !open && resp.StatusCode != want {
				t.Errorf("%s %s answers %d to a stranger", method, path, resp.StatusCode)
			}
			if open && resp.StatusCode != http.StatusOK {
				t.Errorf("%s %s answers %d", method, path, resp.StatusCode)
			}
		}
	}
}

func securityOf(op *openapi3.Operation) *openapi3.SecurityRequirements {
	if op.Security == nil {
		return &openapi3.SecurityRequirements{{"key": nil}}
	}
	return op.Security
}

// TestPage checks that the page names every operation and loads nothing from other servers.
func TestPage(t *testing.T) {
	b := newBench(t)
	resp := b.send("GET", "/docs", "", nil, "")
	html, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("policy %q", csp)
	}
	want := []string{`id="schema-StartedRun"`, "quota_exceeded"}
	for _, item := range loadDocument(t).Paths.Map() {
		for _, op := range item.Operations() {
			want = append(want, `id="`+op.OperationID+`"`)
		}
	}
	for _, op := range want {
		if !bytes.Contains(html, []byte(op)) {
			t.Errorf("the page has no %s", op)
		}
	}
	for _, bad := range []string{"http://", "https://", "onclick", "style=", "<script>"} {
		if bytes.Contains(html, []byte(bad)) {
			t.Errorf("the page has %s", bad)
		}
	}
	for _, link := range regexp.MustCompile(`href="#([^"]+)"`).FindAllSubmatch(html, -1) {
		if !bytes.Contains(html, []byte(`id="`+string(link[1])+`"`)) {
			t.Errorf("the link to #%s leads nowhere", link[1])
		}
	}
	for _, file := range []string{"/docs/page.css", "/docs/page.js", "/openapi.json"} {
		if len(b.get(file, "")) == 0 {
			t.Errorf("%s is empty", file)
		}
	}
}

// TestFrameSchema checks that the document allows each frame that the server sends.
func TestFrameSchema(t *testing.T) {
	schema := loadDocument(t).Components.Schemas["Frame"].Value
	frames := []belljar.Frame{{Type: belljar.FrameStderr, Step: belljar.StepBuild}, {Type: belljar.FrameTruncated, Reason: "log_cap"}, {Type: belljar.FrameHeartbeat}}
	for _, file := range []string{"frame.go", "build.go"} {
		source, err := os.ReadFile("../../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`(?m)^\tEvent\w+ *= "(\w+)"`).FindAllSubmatch(source, -1)
		if len(names) == 0 {
			t.Errorf("%s has no events", file)
		}
		for _, name := range names {
			frames = append(frames, belljar.Frame{Type: belljar.FrameEvent, Event: string(name[1])})
		}
	}
	for _, f := range frames {
		raw, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var sent map[string]any
		if err := json.Unmarshal(raw, &sent); err != nil {
			t.Fatal(err)
		}
		if err := schema.VisitJSON(sent); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		for field := range sent {
			if schema.Properties[field] == nil {
				t.Errorf("%s: no field %s", raw, field)
			}
		}
	}
}

func TestReferenceReads(t *testing.T) {
	if page := newBench(t).get("/docs", ""); bytes.Contains(page, []byte("<td>:")) {
		t.Error("a field without a description begins with a colon")
	}
}

// A page of an allowed origin can send every header in the document.
func TestBrowsersMaySendDeclaredHeaders(t *testing.T) {
	b := newBench(t, func(_ *rest.Options, e *api.EdgeOptions) { e.AllowedOrigins = []string{"https://ide.example"} })
	asked := http.Header{"Origin": {"https://ide.example"}, "Access-Control-Request-Method": {"PUT"}}
	allowed := strings.Split(b.send("OPTIONS", prefix+"/runs", "", asked, "").Header.Get("Access-Control-Allow-Headers"), ", ")
	seen := 0
	for path, item := range loadDocument(t).Paths.Map() {
		for method, op := range item.Operations() {
			for _, p := range op.Parameters {
				if p.Value.In != "header" {
					continue
				}
				if seen++; !slices.Contains(allowed, p.Value.Name) {
					t.Errorf("%s %s: a page cannot send %s", method, path, p.Value.Name)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("the document has no headers")
	}
}
