package workspace_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/api"
	door "github.com/belljar/belljar/internal/api/workspace"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/workspace/sandbox"
	"github.com/belljar/belljar/test/apitest"
)

// whole returns the door with an engine that runs nothing, and all routes: of the caller's own workspace, and of a session.
func whole(f *testing.F) (http.Handler, []apitest.Route) {
	f.Helper()
	programs, err := door.ParseTemplates(`{"shell": {"kind": "pty", "command": ["/bin/sh"]}, "claude": {"kind": "chat", "command": ["/bin/sh", "{chat}"]}}`)
	if err != nil {
		f.Fatal(err)
	}
	yes := func(*http.Request) bool { return true }
	d, err := door.New(door.Options{
		Source: &sandbox.Source{Engine: apitest.Still{}}, Auth: apitest.Callers(), Sockets: apitest.Callers(), User: "alice", Secret: []byte(strings.Repeat("s", 32)),
		TokenTTL: time.Minute, Templates: programs, ChatLifetime: time.Minute, Origin: yes, Secure: yes, OriginAllowed: yes,
		Connect: func(*http.Request) error { return nil }, Bodies: api.JSONShares(), Events: event.Sinks{}, Logger: slog.New(slog.DiscardHandler), Root: true,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = d.Close() })
	var routes []apitest.Route
	for _, mount := range []string{"", door.Prefix + "/" + apitest.ID} {
		for _, path := range []string{
			"/api/tree", "/api/search", "/api/file", "/api/git/status", "/api/git/diff", "/api/git/show", "/api/sessions", "/api/config", "/api/project",
			"/api/capabilities", "/ws/pty", "/ws/claude-stream",
		} {
			routes = append(routes, apitest.Route{Method: "GET", Path: mount + path})
		}
		routes = append(routes,
			apitest.Route{Method: "PUT", Path: mount + "/api/file?path=a.txt", Body: `{"content": "text"}`},
			apitest.Route{Method: "DELETE", Path: mount + "/api/file?path=a.txt"},
			apitest.Route{Method: "POST", Path: mount + "/api/file/rename", Body: `{"old_path": "a.txt", "new_path": "b.txt"}`},
			apitest.Route{Method: "POST", Path: mount + "/api/file/move", Body: `{"src_path": "a.txt", "dest_dir": "b"}`},
			apitest.Route{Method: "POST", Path: mount + "/api/sessions", Body: `{}`},
			apitest.Route{Method: "POST", Path: mount + "/api/login"},
			apitest.Route{Method: "POST", Path: mount + "/api/logout"},
		)
	}
	return apitest.Handler(f, api.EdgeOptions{}, d), append(routes, apitest.Route{Method: "GET", Path: door.Prefix + "/healthz"})
}

func FuzzQuery(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzQuery(f, h, routes, "path=a.txt&depth=2", "q=x&regex=1&glob=*.go", "session_id="+apitest.ID)
}

func FuzzHeader(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzHeader(f, h, routes, "belljar_workspace=x", "token.x")
}

func FuzzBody(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzBody(f, h, routes, `{"content": "\ud800"}`, `{"content": null}`)
}
