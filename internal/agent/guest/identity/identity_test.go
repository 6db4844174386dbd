//go:build linux

package identity

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/test/need"
)

// TestAsEffective: without file system ids, the effective ids give the same rights during the call.
func TestAsEffective(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("", "guest") // accessible to every user, unlike the test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, effective := range []bool{false, true} {
		a := Own{ID: ID{}, Effective: effective}
		name := filepath.Join(dir, map[bool]string{false: "fs", true: "effective"}[effective])
		err := a.As(ID{4321, 5432}, func() error {
			if _, err := os.ReadFile(filepath.Join(dir, "secret")); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("effective %v: another's secret is read: %v", effective, err)
			}
			return os.WriteFile(name, nil, 0o600)
		})
		var st unix.Stat_t
		if err := errors.Join(err, unix.Stat(name, &st)); err != nil || st.Uid != 4321 || st.Gid != 5432 {
			t.Errorf("effective %v: %v, made by %d:%d", effective, err, st.Uid, st.Gid)
		}
		// The thread has its own rights again.
		if err := os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600); err != nil || unix.Geteuid() != 0 || unix.Getegid() != 0 {
			t.Errorf("effective %v: afterwards %v, %d:%d", effective, err, unix.Geteuid(), unix.Getegid())
		}
		if err := a.As(ID{-2, 0}, func() error { return nil }); err == nil {
			t.Error("an unset id is a valid one")
		}
	}
}
