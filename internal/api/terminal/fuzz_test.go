package terminal

import (
	"net/http"
	"testing"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/test/apitest"
)

// whole returns the door with an engine that runs nothing, and its routes. A terminal has no body; FuzzDecode covers its
// messages.
func whole(f *testing.F) (http.Handler, []apitest.Route) {
	f.Helper()
	door, err := New(Options{Engine: apitest.Still{}, Auth: apitest.Callers(), Secret: []byte("0123456789abcdef0123456789abcdef"),
		OriginAllowed: func(*http.Request) bool { return true }})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = door.Close() }) // it never fails
	return apitest.Handler(f, api.EdgeOptions{}, door), []apitest.Route{{Method: "GET", Path: api.Prefix + "/terminals"}}
}

func FuzzQuery(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzQuery(f, h, routes, "terminal_id="+apitest.ID, "session_id=x&cols=80&rows=24", "resume=true&command=a&command=b", "provider=sprites&session_name=main&force_new=1")
}

func FuzzHeader(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzHeader(f, h, routes, "websocket", "13")
}
