package need

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// User makes a folder of an ordinary user, with a copy of the test's program that this user can execute. The folder is removed after
// the test.
func User(t testing.TB, uid int) (dir, program string) {
	t.Helper()
	Root(t)
	dir, err := os.MkdirTemp("", "rootless")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program = filepath.Join(dir, "self.test")
	self, err := os.ReadFile(os.Args[0])
	if err := errors.Join(err, os.WriteFile(program, self, 0o755), os.Chmod(program, 0o755), os.Chown(dir, uid, uid)); err != nil {
		t.Fatal(err)
	}
	return dir, program
}
