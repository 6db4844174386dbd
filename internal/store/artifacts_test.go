package store

import (
	"errors"
	"testing"

	"github.com/belljar/belljar"
)

func TestArtifact(t *testing.T) {
	list := []belljar.Artifact{
		{Path: "a", Size: 1, Digest: "sha256:1"}, {Path: "a/b", Size: 2}, {Path: "ab", LinkTarget: `{"path":"forged","size":3}`},
		{Path: `q"},{"path":"x","size":4`, Size: 5}, {Path: "<ä&\u2028>", Size: 6, Skipped: "expired"},
	}
	var r Run
	r.SetArtifacts(list)
	for _, want := range list {
		if got, err := r.Artifact(want.Path); err != nil || got == nil || *got != want {
			t.Errorf("%q: %+v, %v", want.Path, got, err)
		}
	}
	for _, path := range []string{"", "b", "forged", "x", "a\xff"} {
		if got, err := r.Artifact(path); got != nil || err != nil {
			t.Errorf("%q: %+v, %v", path, got, err)
		}
	}
	r.Artifacts = []byte(`[{"size":7,"path":"other order"}]`)
	if got, err := r.Artifact("other order"); err != nil || got == nil || got.Size != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	r.SetArtifacts(list)
	r.Artifacts = append(r.Artifacts[:len(r.Artifacts)-1], "damaged"...)
	if got, err := r.Artifact("a/b"); err != nil || got == nil || got.Size != 2 {
		t.Errorf("other artifacts were decoded: %+v, %v", got, err)
	}
	if _, err := r.Artifact("b"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v, want corrupt", err)
	}
}
