//go:build linux

package rootfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/test/need"
)

func TestNodes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nodes")
	if got := rootfs.Nodes(filepath.Join(dir, "missing")); got != "/dev" {
		t.Errorf("without a place for them: %s", got)
	}
	need.Root(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	for range 2 {
		if got := rootfs.Nodes(dir); got != dir {
			need.Missing(t, "device nodes in %s: %s", dir, got)
		}
		for _, name := range append(rootfs.Devices(), "") {
			var host, own unix.Stat_t
			if err := unix.Stat("/dev/"+name, &host); err != nil {
				t.Fatal(err)
			}
			if err := unix.Lstat(dir+"/"+name, &own); err != nil {
				t.Fatal(err)
			}
			if own.Mode != host.Mode || own.Rdev != host.Rdev || own.Dev == host.Dev && own.Ino == host.Ino {
				t.Errorf("%q: %+v, on the host %+v", name, own, host)
			}
		}
	}
	zero := filepath.Join(dir, "zero")
	if err := os.Remove(zero); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("full", zero); err != nil {
		t.Fatal(err)
	}
	if got := rootfs.Nodes(dir); got != "/dev" {
		t.Errorf("with a link instead of a node: %s", got)
	}
}
