//go:build linux

// Package power gives tests a disk that can lose its power.
package power

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/test/need"
)

// Disk is an ext4 file system of its own.
type Disk struct {
	t    *testing.T
	file string
	tree disk.Tree
}

// On returns a new disk, or ends the test where there can be none.
func On(t *testing.T) *Disk {
	t.Helper()
	if why, hint := disk.Missing(); why != "" {
		need.Missing(t, "%s: %s", why, hint)
	}
	d := &Disk{t: t, file: filepath.Join(t.TempDir(), "disk")}
	if err := disk.Make(d.file, 64<<20, 1000); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.tree, err = disk.Mount(d.file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.tree.Close() })
	return d
}

// Path returns the path of a name on the disk, until the next Cut. No other process can keep the disk mounted.
func (d *Disk) Path(name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", d.tree.Fd(), name) }

// lost names a file that no program syncs: no disk may have it after Cut.
const lost = "lost"

// Cut stops the disk, so that it has only what was synced, and mounts it again. No file on it may be open.
func (d *Disk) Cut() {
	d.t.Helper()
	if err := os.WriteFile(d.Path(lost), []byte("x"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	f, err := os.Open(d.Path("."))
	if err != nil {
		d.t.Fatal(err)
	}
	const shutdown, withoutTheRest = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	err = unix.IoctlSetPointerInt(int(f.Fd()), shutdown, withoutTheRest)
	f.Close()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.tree.Close(); err != nil {
		d.t.Fatal(err)
	}
	if d.tree, err = disk.Mount(d.file); err != nil {
		d.t.Fatal(err)
	}
	if _, err := os.Stat(d.Path(lost)); !os.IsNotExist(err) {
		d.t.Errorf("control: a file that was not synced: %v", err)
	}
}
