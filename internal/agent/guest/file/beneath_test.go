//go:build linux

package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStepwiseOpensTheSame tests that the same paths are opened and refused without openat2.
func TestStepwiseOpensTheSame(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "a/b"), 0o755),
		os.WriteFile(filepath.Join(dir, "a/b/file"), []byte("x"), 0o644),
		os.Symlink("b", filepath.Join(dir, "a/link")),
		os.Symlink("file", filepath.Join(dir, "a/b/last")),
		os.Symlink("/etc", filepath.Join(dir, "out")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	top, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	for name, want := range map[string]error{
		"a/b/file": nil, "a/b": nil, ".": nil, "a/link/file": unix.ELOOP, "a/b/last": unix.ELOOP, "out": unix.ELOOP,
		"out/passwd": unix.ELOOP, "missing": unix.ENOENT, "a/missing/x": unix.ENOENT, "a/b/file/x": unix.ENOTDIR, "../x": unix.EXDEV,
	} {
		for _, flags := range []int{unix.O_PATH, unix.O_RDONLY} {
			for how, open := range map[string]func(int, string, int) (int, error){"openat2": openBeneath, "stepwise": openStepwise} {
				fd, err := open(int(top.Fd()), name, flags)
				if !errors.Is(err, want) {
					t.Errorf("%s of %s: %v, want %v", how, name, err, want)
				}
				if err == nil {
					unix.Close(fd)
				}
			}
		}
	}
}
