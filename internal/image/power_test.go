//go:build linux

package image_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/test/need"
)

// TestPowerCut tests that a disk that stops right after a pull has the image with all contents of its files, or no image.
func TestPowerCut(t *testing.T) {
	if why, hint := disk.Missing(); why != "" {
		need.Missing(t, "%s: %s", why, hint)
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := disk.Make(file, 64<<20, 1000); err != nil {
		t.Fatal(err)
	}
	mounted := func() (tree disk.Tree, dir string) { // where no other process can keep the mount
		t.Helper()
		tree, err := disk.Mount(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tree.Close() })
		return tree, fmt.Sprintf("/proc/self/fd/%d", tree.Fd())
	}
	tree, dir := mounted()
	text := strings.Repeat("all that the file holds\n", 1000)
	h := newHub(t)
	h.put("app:latest", build(t, spec{layers: [][]byte{tarOf(t, "etc/", "", "etc/below", text), tarOf(t, "etc/above", text)}}))
	s := open(t, image.Options{Path: filepath.Join(dir, "images")}, h)
	pull(t, s, h.ref("app"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Another program syncs its own file, and with it the disk's journal, which has the names and sizes of all files.
	other, err := os.Create(filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	const shutdown, withoutTheRest = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	if err := other.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(other.Fd()), shutdown, withoutTheRest); err != nil {
		t.Fatal(err)
	}
	other.Close()
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}

	_, dir = mounted()
	s = open(t, image.Options{Path: filepath.Join(dir, "images")}, h)
	root := find(t, s, h.ref("app"))
	for _, name := range []string{"below", "above"} {
		if got, err := os.ReadFile(filepath.Join(root.Dir, "etc", name)); err != nil || string(got) != text {
			t.Errorf("%s has %d bytes, want %d: %v", name, len(got), len(text), err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err != nil {
		t.Errorf("control: %v", err)
	}
}
