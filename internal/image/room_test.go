//go:build linux

package image_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/test/need"
)

// TestDiskFull tests that a full disk ends a pull and an import with that reason, and that they leave nothing.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		need.Missing(t, "a mount: %v", err)
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
	wantError(t, err, belljar.CodeDiskFull, h.ref("large"), "image prune")
	_, err = s.Import(t.Context(), "x", bytes.NewReader(large), nil)
	wantError(t, err, belljar.CodeDiskFull, "library/x", "image prune")
	_, err = s.Import(t.Context(), "x", bytes.NewReader(gzipped(t, tarOf(t, "zeros", string(make([]byte, 2<<20))))), nil)
	wantError(t, err, belljar.CodeDiskFull)
	if left := slices.Concat(entries(t, path, "images"), entries(t, path, "layers"), leftovers(t, path)); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	pull(t, s, h.ref("small"))
}

// TestPlainRoomOfOthers tests that unpacking ends while the disk still has the reserved room.
func TestPlainRoomOfOthers(t *testing.T) {
	const most = 16 << 20
	path := filepath.Join(t.TempDir(), "images")
	free := func() (uint64, error) { // for a disk with no other files
		var used int64
		err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil
			}
			if info, err := e.Info(); err == nil {
				used += info.Size()
			}
			return nil
		})
		return uint64(max(0, 2*most-used)), err
	}
	zeros := tarOf(t, "zeros", string(make([]byte, 3*most)))
	h := newHub(t)
	h.put("bomb:1", build(t, spec{layers: [][]byte{zeros}, pack: "gzip"}))
	h.put("small:1", build(t, spec{layers: [][]byte{tarOf(t, "f", "fine")}}))
	s := open(t, image.Options{Path: path, Free: free, MinFree: most}, h)
	_, err := s.Pull(t.Context(), h.ref("bomb:1"), false, nil)
	wantError(t, err, belljar.CodeDiskFull, "minimum_bytes", "prune")
	_, err = s.Import(t.Context(), "x", bytes.NewReader(gzipped(t, zeros)), nil)
	wantError(t, err, belljar.CodeDiskFull, "minimum_bytes")
	if left := slices.Concat(entries(t, path, "images"), entries(t, path, "layers"), leftovers(t, path)); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	pull(t, s, h.ref("small:1"))
}

// TestPlainFilesOfOthers tests that an image of many empty files ends while other programs can still make some.
func TestPlainFilesOfOthers(t *testing.T) {
	var many []string
	for i := range 20_000 { // more than are written between three checks
		many = append(many, fmt.Sprintf("f%d", i), "")
	}
	layer := tarOf(t, many...)
	path := filepath.Join(t.TempDir(), "images")
	h := newHub(t)
	h.put("crowd:1", build(t, spec{layers: [][]byte{layer}, pack: "gzip"}))
	h.put("small:1", build(t, spec{layers: [][]byte{tarOf(t, "f", "fine")}}))
	const all, rest = 30_000, 7_000 // the disk's number of files, and how many are still free
	s := open(t, image.Options{
		Path: path, MinFree: 1, Free: func() (uint64, error) { return 1 << 40, nil },
		FreeFiles: func() (uint64, uint64, error) {
			used := 0
			err := filepath.WalkDir(path, func(string, fs.DirEntry, error) error { used++; return nil })
			return uint64(max(0, rest-used)), all, err
		},
	}, h)
	_, err := s.Pull(t.Context(), h.ref("crowd:1"), false, nil)
	wantError(t, err, belljar.CodeDiskFull, "minimum_files:600", "prune")
	if left := slices.Concat(entries(t, path, "images"), entries(t, path, "layers"), leftovers(t, path)); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	pull(t, s, h.ref("small:1"))
}

// TestRemoveOnFullDisk tests that images can be removed from a disk without free bytes, or without free inodes.
func TestRemoveOnFullDisk(t *testing.T) {
	fill := map[string]func(dir string) error{
		"size=2m": func(dir string) error {
			f, err := os.Create(filepath.Join(dir, "others"))
			if err != nil {
				return err
			}
			for size := 4096; size > 0; size /= 2 {
				for err = nil; err == nil; {
					_, err = f.Write(make([]byte, size))
				}
			}
			return f.Close()
		},
		"size=8m,nr_inodes=200": func(dir string) error {
			var err error
			for i := 0; err == nil; i++ {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprint("other", i)), nil, 0o600)
			}
			if !errors.Is(err, unix.ENOSPC) {
				return err
			}
			return nil
		},
	}
	for name, remove := range map[string]func(*image.Store) error{
		"remove": func(s *image.Store) error { return s.Remove(t.Context(), "one") },
		"prune": func(s *image.Store) error {
			gone, err := s.Prune(t.Context(), belljar.ImagePrune{All: true})
			if len(gone.Images) != 2 {
				t.Errorf("pruned %v", gone.Images)
			}
			return err
		},
	} {
		for disk, full := range fill {
			t.Run(name+" "+disk, func(t *testing.T) {
				dir := t.TempDir()
				if err := unix.Mount("tmpfs", dir, "tmpfs", 0, disk); err != nil {
					need.Missing(t, "a mount: %v", err)
				}
				t.Cleanup(func() {
					if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
						t.Error(err)
					}
				})
				s := open(t, image.Options{Path: filepath.Join(dir, "images")})
				for _, name := range []string{"one", "two"} {
					if _, err := s.Import(t.Context(), name, bytes.NewReader(tarOf(t, name, name)), nil); err != nil {
						t.Fatal(err)
					}
				}
				if err := full(dir); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Tag(t.Context(), "two", "three"); belljar.CodeOf(err) != belljar.CodeDiskFull {
					t.Fatalf("the disk is not full: %v", err)
				}
				if err := remove(s); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
