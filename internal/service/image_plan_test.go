package service

import (
	"reflect"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
)

// What programs of a session are told of their image is the same after a restart.
func TestImageAgain(t *testing.T) {
	for name, root := range map[string]runtime.Root{
		"host":                 {Ref: runtime.HostRef},
		"host with a Go cache": {Ref: runtime.HostRef, GoCache: "/srv/cache"},
		"image":                {Ref: "golang:1.26", Digest: "sha256:0", Env: []string{"A=b"}, WorkingDir: "/go", UID: 5, GID: 6},
		"image with one":       {Ref: "golang:1.26", Digest: "sha256:0", GoCache: "/srv/cache"},
	} {
		before := &plan{image: root}
		after := &plan{image: imageAgain(root.Ref, root.Digest, noteImage(root))}
		if was, is := before.environment(), after.environment(); !reflect.DeepEqual(was, is) {
			t.Errorf("%s: %q, before %q", name, is, was)
		}
		if after.image.WorkingDir != root.WorkingDir || after.image.UID != root.UID || after.image.GID != root.GID {
			t.Errorf("%s: %+v", name, after.image)
		}
	}
}
