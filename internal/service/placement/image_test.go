package placement

import (
	"reflect"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
)

// Programs of a session see the same image settings after a restart.
func TestRecoveredImage(t *testing.T) {
	for name, root := range map[string]runtime.Root{
		"host":                 {Ref: runtime.HostRef},
		"host with a Go cache": {Ref: runtime.HostRef, GoCache: "/srv/cache"},
		"image":                {Ref: "golang:1.26", Digest: "sha256:0", Env: []string{"A=b"}, WorkingDir: "/go", UID: 5, GID: 6},
		"host with packages":   {Ref: runtime.HostRef, Layers: []runtime.Layer{{Name: "npm", Dir: "/srv/a"}, {Name: "pip", Dir: "/srv/b"}}},
		"image with one":       {Ref: "golang:1.26", Digest: "sha256:0", GoCache: "/srv/cache"},
	} {
		before := &Placement{Image: root}
		after := &Placement{Image: RecoveredImage(root.Ref, root.Digest, NoteImage(root))}
		if was, is := before.Environment(""), after.Environment(""); !reflect.DeepEqual(was, is) {
			t.Errorf("%s: %q, before %q", name, is, was)
		}
		if after.Image.WorkingDir != root.WorkingDir || after.Image.UID != root.UID || after.Image.GID != root.GID || !reflect.DeepEqual(after.Image.Layers, root.Layers) {
			t.Errorf("%s: %+v", name, after.Image)
		}
	}
}
