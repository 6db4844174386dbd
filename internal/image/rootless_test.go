//go:build linux

package image_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar/test/need"
)

// TestRootless tests that a user without privileges, and with a umask that hides all files, has images that all users
// can read, and can remove them.
func TestRootless(t *testing.T) {
	const nobody = 61235
	dir, program := need.User(t, nobody)
	h := newHub(t)
	b := build(t, spec{layers: [][]byte{tarOf(t, "bin/", "", "bin/sh", "x", "etc/passwd", "app:x:7:8::/:"), tarOf(t, ".wh.bin", "")}, config: map[string]any{"User": "app"}})
	h.put("app:latest", b)
	path := filepath.Join(dir, "images")
	as := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `umask 077; exec "$@"`, "sh", program}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("as uid %d: %v\n%s", nobody, err, out)
		}
	}
	as(childPull, path, h.host(), h.ref("app"))
	found := 0
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		inRoot := strings.Contains(name+"/", "/root/")
		switch mode := info.Mode().Perm(); {
		case d.IsDir() && inRoot && mode&0o755 != 0o755, d.IsDir() && mode&0o711 != 0o711, d.Type().IsRegular() && inRoot && mode&0o444 != 0o444:
			t.Errorf("%s is %v", name, info.Mode())
		case info.Mode().Perm()&0o022 != 0:
			t.Errorf("%s can be written to by others: %v", name, info.Mode())
		}
		if inRoot && d.Name() == "passwd" {
			found++
		}
		return nil
	})
	if err != nil || found != 1 {
		t.Errorf("%d files, %v", found, err)
	}
	as(childChurn, path, h.host(), h.ref("app"), "2")
	if left := entries(t, path, "layers"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
