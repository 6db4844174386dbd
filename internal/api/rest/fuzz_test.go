package rest_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/test/apitest"
)

// whole returns the door with an engine that runs nothing, and all routes of the document.
func whole(f *testing.F) (http.Handler, []apitest.Route) {
	f.Helper()
	door, err := rest.New(rest.Options{Engine: apitest.Still{}, Auth: apitest.Callers(), Version: "1"})
	if err != nil {
		f.Fatal(err)
	}
	bodies := map[string]string{
		"POST /runs":                             `{"spec_version": "1.1", "base_image": "host", "command": ["true"], "env": {"A": "b"}, "files": [{"path": "a", "content_b64": "YQ=="}]}`,
		"POST /sessions":                         `{"spec_version": "1.1", "base_image": "host", "resources": {"cpu": 0.5}, "scope": {"namespace": "agent", "id": "x"}}`,
		"POST /sessions/" + apitest.ID + "/exec": `{"cmd": ["true"], "cwd": "a", "timeout_seconds": 1}`,
		"POST /images/pull":                      `{"ref": "python:3.11"}`,
	}
	var routes []apitest.Route
	for path, methods := range describedPaths(f) {
		if !strings.HasPrefix(path, prefix) {
			continue
		}
		for _, method := range methods {
			at := strings.NewReplacer("{path}", "a.txt", "{exec_id}", apitest.ID, "{run_id}", apitest.ID, "{session_id}", apitest.ID,
				"{terminal_id}", apitest.ID, "{token_id}", apitest.ID, "{user_id}", "alice").Replace(path)
			method = strings.ToUpper(method)
			routes = append(routes, apitest.Route{Method: method, Path: at, Body: bodies[method+" "+strings.TrimPrefix(at, prefix)]})
		}
	}
	slices.SortFunc(routes, func(a, b apitest.Route) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	if len(routes) < 40 {
		f.Fatalf("only %d routes", len(routes))
	}
	return rest.RequireCleanPath(apitest.Handler(f, api.EdgeOptions{}, door)), routes
}

func FuzzQuery(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzQuery(f, h, routes, "wait=30s", "limit=1&offset=2&sort=created_at:asc", "path=a&format=zip", "from_seq=1&follow=true", "recursive=true",
		"path=a.txt&mode=0644&overwrite=true", "started_from=2025-10-28T12:00:00Z", "base_image=&=null")
}

func FuzzHeader(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzHeader(f, h, routes, "bytes=1-", `W/"sha256:00"`, "gzip")
}

func FuzzBody(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzBody(f, h, routes, `{"cmd": ["true"]}`, `{"ref": "a", "name": "b"}`, `{"user_id": "a", "ttl_sec": 1}`, `{"key_prefix": "agent:x:"}`,
		`{"path": "a", "contents": "b", "mode": "0644"}`, `{"files": [{"path": "a", "contents_b64": "YQ=="}]}`, `{"cols": 80, "rows": 24}`, `{"concurrent_runs": 1}`)
}

// describedPaths are the paths of the document and their methods.
func describedPaths(f *testing.F) map[string][]string {
	f.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile(specFile)
	if err != nil {
		f.Fatal(err)
	}
	paths := map[string][]string{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			paths[path] = append(paths[path], method)
		}
	}
	return paths
}
