//go:build linux

package remote_test

import (
	"context"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/remote"
	"github.com/belljar/belljar/test/apitest"
)

// machine is a machine with a name.
type machine string

func (m machine) Name() string              { return string(m) }
func (machine) Ready(context.Context) error { return nil }
func (machine) Circuit() string             { return "closed" }

// Only sessions in the sprite have its folder.
func TestSpriteRoot(t *testing.T) {
	engine, ann := apitest.NewWorld(t, nil).Service, apitest.Callers()[key]
	s, _, err := engine.As(ann).Sessions().Open(t.Context(), belljar.SessionRequest{SessionSpec: workspace.Spec("host")})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[machine]string{machine(s.Runtime): "/home/sprite/workspace", "sprites": belljar.WorkspaceDir} {
		source := &remote.Sprite{Engine: engine, Machine: name, Root: "/home/sprite/workspace"}
		if w, err := source.Open(t.Context(), ann, s.ID); err != nil || w.Root != want || w.Session != s.ID {
			t.Errorf("a session of runtime %s where the sprite's is %s: %q, %v, want %q", s.Runtime, name, w.Root, err, want)
		}
	}
}
