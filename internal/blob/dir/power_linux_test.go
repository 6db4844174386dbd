package dir

import (
	"io"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/test/power"
)

// TestPowerCut checks that artifacts are complete on a disk that stops right after Sync.
func TestPowerCut(t *testing.T) {
	disk := power.On(t)
	s, err := Open(Options{Path: disk.Path("artifacts")})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("all that the file has\n", 1000)
	keys := []blob.Key{{UserID: "ann", RunID: run, Path: "a"}, {UserID: "ann", RunID: run, Path: "deep/er/b"}}
	for _, k := range keys {
		if _, err := s.Put(t.Context(), k, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sync(t.Context(), "ann", run); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	disk.Cut()

	if s, err = Open(Options{Path: disk.Path("artifacts")}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, k := range keys {
		r, err := s.Open(t.Context(), k, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if r.Close(); err != nil || string(got) != text {
			t.Errorf("%s has %d bytes, want %d: %v", k.Path, len(got), len(text), err)
		}
	}
}
