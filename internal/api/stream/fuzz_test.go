package stream

import (
	"net/http"
	"testing"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/test/apitest"
)

// whole returns the door over an engine that runs nothing, and all its routes.
func whole(f *testing.F) (http.Handler, []apitest.Route) {
	f.Helper()
	door, err := New(Options{
		Engine: apitest.Still{}, Auth: apitest.Callers(), Secret: []byte("0123456789abcdef0123456789abcdef"), SignedURLs: true,
		URL: func(r *http.Request, path string) string { return "ws://" + r.Host + path },
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = door.Close() }) // it never fails
	return apitest.Handler(f, api.EdgeOptions{}, door), []apitest.Route{
		{Method: "GET", Path: api.Prefix + "/runs/" + apitest.ID + "/logs"}, {Method: "GET", Path: api.Prefix + "/runs/" + apitest.ID + "/stream"},
		{Method: "POST", Path: api.Prefix + "/tickets", Body: `{"path": "/x"}`},
	}
}

func FuzzQuery(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzQuery(f, h, routes, "from_seq=2&format=json&follow=true", "since_seq=1&stream=stdout", "from_seq=tail&exp=5", "format=text")
}

func FuzzHeader(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzHeader(f, h, routes, "websocket", "13", "2")
}

func FuzzBody(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzBody(f, h, routes)
}
