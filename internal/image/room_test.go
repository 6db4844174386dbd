//go:build linux

package image_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// TestDiskFull: a disk that has no more room ends a pull and an import with that reason, and they leave nothing.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small disk needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "images")
	large, small := noise(t, 1<<20), tarOf(t, "f", "fine")
	h := newHub(t)
	h.put("large:latest", build(t, spec{layers: [][]byte{large}}))
	h.put("small:latest", build(t, spec{layers: [][]byte{small}}))
	s := open(t, image.Options{Path: path}, h)
	_, err := s.Pull(t.Context(), h.ref("large"), false, nil)
	wantError(t, err, belljar.CodeDiskFull)
	_, err = s.Import(t.Context(), "x", bytes.NewReader(large), nil)
	wantError(t, err, belljar.CodeDiskFull)
	_, err = s.Import(t.Context(), "x", bytes.NewReader(gzipped(t, tarOf(t, "zeros", string(make([]byte, 2<<20))))), nil)
	wantError(t, err, belljar.CodeDiskFull)
	if left := slices.Concat(entries(t, path, "images"), entries(t, path, "layers"), leftovers(t, path)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	pull(t, s, h.ref("small"))
}
