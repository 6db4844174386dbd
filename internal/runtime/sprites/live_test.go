//go:build linux

package sprites_test

import (
	"os"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime/sprites"
	"github.com/belljar/belljar/internal/upstream"
)

// TestLive runs against a real sprite, on which deploy/sandbox has installed the workspace service. make live-sprites reports whether
// it ran.
func TestLive(t *testing.T) {
	names := []string{"SPRITES_BASE_URL", "SPRITES_SPRITE_NAME", "SPRITES_TOKEN", "SPRITES_WORKSPACE_SERVICE_HOST"}
	value := map[string]string{}
	for _, name := range names {
		if value[name] = os.Getenv(name); value[name] == "" {
			t.Skipf("the live lane did not run: %s is not set; it needs %s and SPRITES_WORKSPACE_SERVICE_TOKEN", name, strings.Join(names, ", "))
		}
	}
	api, err := upstream.New(upstream.Options{URL: value[names[0]], Token: value[names[2]], Allow: sprites.Rules(value[names[1]])})
	if err != nil {
		t.Fatal(err)
	}
	service, err := upstream.New(upstream.Options{
		URL:   "https://" + value[names[3]] + strings.TrimSuffix(os.Getenv("SPRITES_WORKSPACE_SERVICE_PATH"), "/"),
		Token: os.Getenv("SPRITES_WORKSPACE_SERVICE_TOKEN"), Allow: []upstream.Rule{{Methods: []string{"GET"}, Path: "/healthz"}, {Methods: []string{"GET"}, Path: "/__meta/version"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	open := func() *sprites.Runtime {
		r, err := sprites.New(sprites.Options{
			API: api, Service: upstream.CheckOptions{Guard: service, Version: wire.WorkspaceAPI}, Sprite: value[names[1]], State: state,
			Agent: "/srv/workspace-api/belljar-agent", Workspace: "/home/sprite/workspace", Secrets: "/srv/workspace-api/run/secrets",
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	first := open()
	if err := first.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	box := create(t, first)
	text := belljar.NewID()
	run(t, box, "echo "+text+" > .belljar-live")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open()
	again, err := second.Attach(t.Context(), box.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, again, "cat .belljar-live; rm .belljar-live"); got != text+"\n" {
		t.Errorf("%q", got)
	}
	if err := second.Remove(t.Context(), box.ID()); err != nil {
		t.Error(err)
	}
}
