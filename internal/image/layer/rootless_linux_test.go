package layer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/belljar/belljar/test/need"
)

// TestRootless repeats the other tests as an ordinary user, if they run as root.
func TestRootless(t *testing.T) {
	const nobody = 61234
	dir, program := need.User(t, nobody)
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.short", "-test.timeout=30m",
		"-test.run=^(TestLayers|TestTimes|TestStats|TestHostile|TestOddButFine|TestRemove|TestRemoveDeep|TestModel|TestCopies|TestAttributes|TestUmask)$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as uid %d: %v\n%s", nobody, err, out)
	}
}
