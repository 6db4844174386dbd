package dir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/test/need"
)

// A full disk refuses the whole artifact, and accepts a later one that fits.
func TestDiskFull(t *testing.T) {
	path := t.TempDir()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, and its mounts, end with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", path, "tmpfs", 0, "mode=0700,size=256k")
		}
		if err == nil {
			fillDisk(t, path)
		}
		done <- err
	}()
	if err := <-done; errors.Is(err, os.ErrPermission) {
		need.Missing(t, "a mount: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func fillDisk(t *testing.T, path string) {
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	k := blob.Key{UserID: "user", RunID: run, Path: "small"}
	if _, err := s.Put(t.Context(), k, strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	k.Path = "dist/large"
	if _, err := s.Put(t.Context(), k, bytes.NewReader(make([]byte, 1<<20))); !errors.Is(err, blob.ErrFull) {
		t.Errorf("Put: %v, want ErrFull", err)
	}
	if _, err := s.Open(t.Context(), k, 0); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Open: %v, want ErrNotFound", err)
	}
	if left, _ := filepath.Glob(filepath.Join(path, "user", "runs", run, "put-*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if _, err := s.Put(t.Context(), k, strings.NewReader("fits")); err != nil {
		t.Errorf("Put of what fits: %v", err)
	}
}
