package gocache

import (
	"archive/tar"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The users of sandboxes can read a cache, for any umask of the server.
func TestReadable(t *testing.T) {
	s := New(t.TempDir())
	defer syscall.Umask(syscall.Umask(0o077))
	if err := s.replace(s.path("host", ""), archiveOf(t, tar.Header{Name: entry("8"), Typeflag: tar.TypeReg})); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"": os.ModeDir | 0o755, "a7": os.ModeDir | 0o755, entry("8"): 0o644} {
		if info, err := os.Stat(filepath.Join(s.Folder("host", ""), name)); err != nil || info.Mode() != want {
			t.Errorf("%q: %v, %v", name, info.Mode(), err)
		}
	}
}
