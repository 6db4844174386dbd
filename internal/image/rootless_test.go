//go:build linux

package image_test

import (
	"io"
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
	need.Root(t)
	dir, err := os.MkdirTemp("", "rootless")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const nobody = 61235
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "image.test")
	install(t, program)
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
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
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

// install copies this program to a folder where every user can run it.
func install(t *testing.T, name string) {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Chmod(0o755); err != nil { // whatever the umask
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
}
