package shell_test

import (
	"net/http"
	"testing"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/shell"
	"github.com/belljar/belljar/test/apitest"
)

// whole returns the door with an engine that runs nothing, and all routes.
func whole(f *testing.F) (http.Handler, []apitest.Route) {
	f.Helper()
	door, err := shell.New(shell.Options{Engine: apitest.Still{}, Auth: apitest.Callers()})
	if err != nil {
		f.Fatal(err)
	}
	const session = "/v1/sessions/" + apitest.ID
	return apitest.Handler(f, api.EdgeOptions{}, door), []apitest.Route{
		{Method: "POST", Path: "/v1/sessions", Body: `{"image": "host", "ttl_seconds": 60}`}, {Method: "GET", Path: "/v1/sessions"},
		{Method: "GET", Path: session}, {Method: "DELETE", Path: session},
		{Method: "POST", Path: session + "/exec", Body: `{"cmd": "true", "timeout_ms": 1000}`},
		{Method: "POST", Path: session + "/exec/stream", Body: `{"cmd": "true"}`},
		{Method: "POST", Path: session + "/fs/write", Body: `{"path": "a", "text": "b"}`}, {Method: "GET", Path: session + "/fs/read"},
		{Method: "GET", Path: session + "/fs/list"}, {Method: "DELETE", Path: session + "/fs/delete"},
		{Method: "POST", Path: api.Prefix + "/sessions/" + apitest.ID + "/shell", Body: `{"cmd": "true", "separate": true, "stdin": "x"}`},
	}
}

func FuzzQuery(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzQuery(f, h, routes, "path=a.txt", "path=.&recursive=true&limit=10", "limit=5&offset=1")
}

func FuzzHeader(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzHeader(f, h, routes)
}

func FuzzBody(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzBody(f, h, routes, `{"path": "a", "content_base64": "YQ=="}`, `{"cmd": "x", "timeout_ms": 1e300}`)
}
