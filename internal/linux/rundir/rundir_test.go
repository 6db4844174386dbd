//go:build linux

package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDefault(t *testing.T) {
	dir := Default()
	if !filepath.IsAbs(dir) || !strings.Contains(filepath.Base(dir), "belljar") {
		t.Errorf("default is %q", dir)
	}
	if os.Geteuid() == 0 && inMemory("/dev/shm") && !inMemory(filepath.Dir(dir)) {
		t.Errorf("default %s is on a disk though /dev/shm is in memory", dir)
	}
}

func TestInMemory(t *testing.T) {
	if inMemory("/proc") || inMemory("/nowhere") {
		t.Error("/proc or a folder that does not exist holds files in memory")
	}
	if os.Geteuid() != 0 {
		return // the rest needs mounts
	}
	dir := t.TempDir()
	if err := unix.Mount("belljar-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if !inMemory(dir) {
		t.Error("a tmpfs is not in memory")
	}
}
