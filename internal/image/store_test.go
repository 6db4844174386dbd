package image_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
)

func TestFindHost(t *testing.T) {
	var s image.Store
	for _, ref := range []string{"", "host"} {
		root, err := s.Find(t.Context(), ref)
		if err != nil {
			t.Fatalf("Find(%q): %v", ref, err)
		}
		if diff := cmp.Diff(runtime.Root{Ref: "host"}, root.Runtime()); diff != "" {
			t.Errorf("Find(%q) (-want +got):\n%s", ref, diff)
		}
	}
}

func TestFindUnknown(t *testing.T) {
	var s image.Store
	for _, ref := range []string{"python:3.11-slim", "Host", " host", "/", "../host"} {
		_, err := s.Find(t.Context(), ref)
		var e *belljar.Error
		if !errors.As(err, &e) {
			t.Fatalf("Find(%q): %v, want a belljar.Error", ref, err)
		}
		want := map[string]any{"image": ref, "available": []string{"host"}}
		if e.Code != belljar.CodeImageUnavailable || e.Hint == "" || !cmp.Equal(e.Details, want) {
			t.Errorf("Find(%q): %+v", ref, e)
		}
	}
}

// The hint for many images stays one line, and the details list more of them.
func TestAbsentAmongMany(t *testing.T) {
	e, _ := errors.AsType[*belljar.Error](image.Absent("none", strings.Fields(strings.Repeat("name ", 40))))
	if list, _ := e.Details["available"].([]string); len(list) != 32 || strings.Count(e.Hint, "name") != 10 || !strings.HasSuffix(e.Hint, " and 30 more") {
		t.Errorf("%+v", e)
	}
}

func TestRuntimeRoot(t *testing.T) {
	root := image.Root{
		Ref: "r", Digest: "sha256:1", Dir: "/d", Lock: "/l", UID: 7, GID: 8,
		Config: belljar.ImageConfig{Env: []string{"A=b"}, User: "u"},
	}
	want := runtime.Root{Ref: "r", Digest: "sha256:1", Dir: "/d", Lock: "/l", Env: []string{"A=b"}, UID: 7, GID: 8}
	if diff := cmp.Diff(want, root.Runtime()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
