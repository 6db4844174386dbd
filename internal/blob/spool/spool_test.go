package spool

import (
	"os"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/blob/blobtest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store {
		s := &Store{Dir: t.TempDir()}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

// The folder stays empty, so that nothing is left over if the process is killed.
func TestNoName(t *testing.T) {
	for name, file := range map[string]func(string) (*os.File, string, error){"nameless": nameless, "unnamed": unnamed} {
		dir := t.TempDir()
		f, keeps, err := file(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if list, err := os.ReadDir(dir); err != nil || len(list) != 0 || keeps != "" {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

// The last user closes the file.
func TestDescriptors(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	defer s.Close()
	k := blob.Key{UserID: "user", RunID: "run", Path: "a"}
	if _, err := s.Put(t.Context(), k, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	tape := s.tapes[owner{"user", "run"}]
	r, err := s.Open(t.Context(), k, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "user", "run"); err != nil {
		t.Fatal(err)
	}
	if tape.file == nil {
		t.Error("the file is closed under a reader")
	}
	r.Close()
	r.Close()
	if tape.file != nil {
		t.Error("the file is open without a user")
	}
	if _, err := os.Stat(s.Dir); err != nil {
		t.Errorf("its folder went too: %v", err)
	}
}
