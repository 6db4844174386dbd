//go:build linux

package workspace_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/internal/api/stream"
	"github.com/belljar/belljar/internal/api/terminal"
	door "github.com/belljar/belljar/internal/api/workspace"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/sprites"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/upstream"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/remote"
	"github.com/belljar/belljar/internal/workspace/sandbox"
	"github.com/belljar/belljar/test/apitest"
	"github.com/belljar/belljar/test/build"
	stand "github.com/belljar/belljar/test/sprites"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// another starts another belljar, and returns a source of its workspaces.
func another(t *testing.T) workspace.Source {
	engine, secret := apitest.NewWorld(t, nil, unbounded).Service, []byte(strings.Repeat("o", 32))
	streams := must[*stream.Door](t)(stream.New(stream.Options{Engine: engine, Auth: apitest.Callers(), Secret: secret}))
	terminals := must[*terminal.Door](t)(terminal.New(terminal.Options{Engine: engine, Auth: apitest.Callers(), Secret: secret, OriginAllowed: func(*http.Request) bool { return true }}))
	canonical := must[*rest.Door](t)(rest.New(rest.Options{Engine: engine, Auth: apitest.Callers(), MaxUpload: 64 << 20, Terminal: terminals.New}))
	inner := must[*door.Door](t)(door.New(door.Options{
		Source: &sandbox.Source{Engine: engine}, Auth: apitest.Callers(), Sockets: apitest.Callers(), Secret: secret,
		Origin: func(*http.Request) bool { return true }, OriginAllowed: func(*http.Request) bool { return true }, Templates: door.Templates{},
		Secure: func(*http.Request) bool { return false }, Connect: func(*http.Request) error { return nil }, Bodies: api.JSONShares(),
		TokenTTL: time.Minute, ChatLifetime: time.Minute, Events: event.Sinks{}, Logger: slog.New(slog.DiscardHandler),
	}))
	edge := must[*api.Edge](t)(api.NewEdge(api.EdgeOptions{}))
	mux := http.NewServeMux()
	canonical.Register(mux)
	streams.Register(mux)
	terminals.Register(mux)
	inner.Register(mux)
	server := httptest.NewServer(edge.Wrap(mux))
	s := must[*remote.Source](t)(remote.New(remote.Options{URL: server.URL, Key: "alice", Image: "host"}))
	t.Cleanup(func() {
		s.Close()
		streams.Close()
		terminals.Close()
		inner.Close()
		server.CloseClientConnections()
		server.Close()
	})
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// spriteWorld returns an engine over a stand-in for a sprite, with the real agent in it.
func spriteWorld(t *testing.T) workspace.Source {
	api, address := stand.Deployed(t, must[[]byte](t)(build.AgentProgram()))
	to := must[*upstream.Guard](t)(upstream.New(upstream.Options{URL: api.URL, Token: stand.Token, Allow: sprites.Rules("box")}))
	at := must[*upstream.Guard](t)(upstream.New(upstream.Options{URL: "http://" + address + "/internal/v1", Token: stand.ServiceToken, Allow: []upstream.Rule{
		{Methods: []string{"GET"}, Path: "/healthz"}, {Methods: []string{"GET"}, Path: "/__meta/version"},
	}}))
	rt := must[*sprites.Runtime](t)(sprites.New(sprites.Options{
		API: to, Service: upstream.CheckOptions{Guard: at, Version: wire.WorkspaceAPI}, Sprite: "box", State: t.TempDir(),
		Agent: stand.Agent, Workspace: stand.Workspace, Secrets: stand.Secrets,
	}))
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	engine := apitest.NewWorld(t, nil, unbounded, func(o *service.Options) { o.Runtimes = []runtime.Runtime{rt} }).Service
	return &remote.Sprite{Engine: engine, Machine: rt, Root: api.Dir + stand.Workspace}
}

// A belljar and the service in a sprite have the same version, and only callers with a key may read it.
func TestMeta(t *testing.T) {
	if wire.WorkspaceAPI != workspace.APIVersion {
		t.Errorf("%s and %s", wire.WorkspaceAPI, workspace.APIVersion)
	}
	w := newWorld(t, sources()[0])
	for path, body := range map[string]string{"/workspace/healthz": `{"status":"ok"}`, "/workspace/__meta/version": `"version":"` + workspace.APIVersion + `"`} {
		got := w.ask("alice", "GET", path, "")
		if got.status != 200 || !strings.Contains(got.body, body) || got.header.Get("X-Workspace-API-Version") != workspace.APIVersion {
			t.Errorf("%s: %+v", path, got)
		}
		if got := w.ask("", "GET", path, ""); got.status != 401 {
			t.Errorf("%s without a key: %+v", path, got)
		}
	}
}
