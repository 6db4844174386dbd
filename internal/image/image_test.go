package image_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
)

func TestResolveHost(t *testing.T) {
	var r image.Resolver
	for _, ref := range []string{"", "host"} {
		root, err := r.Resolve(t.Context(), ref)
		if err != nil {
			t.Fatalf("Resolve(%q): %v", ref, err)
		}
		if diff := cmp.Diff(runtime.Root{Ref: "host"}, root.Runtime()); diff != "" {
			t.Errorf("Resolve(%q) (-want +got):\n%s", ref, diff)
		}
	}
}

func TestResolveUnknown(t *testing.T) {
	var r image.Resolver
	for _, ref := range []string{"python:3.11-slim", "Host", " host", "/", "../host"} {
		_, err := r.Resolve(t.Context(), ref)
		var e *belljar.Error
		if !errors.As(err, &e) {
			t.Fatalf("Resolve(%q): %v, want a belljar.Error", ref, err)
		}
		want := map[string]any{"image": ref, "available": []string{"host"}}
		if e.Code != belljar.CodeImageUnavailable || e.Hint == "" || !cmp.Equal(e.Details, want) {
			t.Errorf("Resolve(%q): %+v", ref, e)
		}
	}
}

func TestRuntimeRoot(t *testing.T) {
	root := image.Root{Ref: "r", Digest: "sha256:1", Dir: "/d", Config: image.Config{Env: []string{"A=b"}, User: "u"}}
	want := runtime.Root{Ref: "r", Digest: "sha256:1", Dir: "/d", Env: []string{"A=b"}}
	if diff := cmp.Diff(want, root.Runtime()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
