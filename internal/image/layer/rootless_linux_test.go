package layer_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/belljar/belljar/test/need"
)

// TestRootless repeats the other tests as an ordinary user, if they run as root.
func TestRootless(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("", "rootless")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 61234
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "layer.test")
	install(t, program)
	cmd := exec.CommandContext(t.Context(), program, "-test.short", "-test.timeout=30m",
		"-test.run=^(TestLayers|TestTimes|TestStats|TestHostile|TestOddButFine|TestRemove|TestRemoveDeep|TestModel|TestCopies|TestAttributes|TestUmask)$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as uid %d: %v\n%s", nobody, err, out)
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
