//go:build linux

package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/wire"
)

// If the kernel cannot kill a cgroup atomically, like Linux before 5.14, its processes are killed one by one.
func TestGroupWithoutKill(t *testing.T) {
	a, err := New(Config{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	e, _, err := a.start(wire.Exec{ID: "a", Argv: []string{"sh", "-c", "sleep 1000; true"}, Env: os.Environ(), UID: os.Getuid(), GID: os.Getgid()})
	if err != nil {
		t.Fatal(err)
	}
	group := emptyGroup(t)
	in := &exec{a: a, pid: e.pid, keeper: e.keeper, exited: e.exited, empty: e.empty, group: group}
	if !in.kill() || !isClosed(e.empty) {
		t.Error("what it has started lives on")
	}
}

// emptyGroup returns a cgroup without processes, in an ordinary folder.
func emptyGroup(t *testing.T) *process.Group {
	t.Helper()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	groups := &process.Groups{Dir: dir}
	t.Cleanup(func() { groups.Close() })
	group, err := groups.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group.Dir.Close() })
	if err := os.WriteFile(filepath.Join(dir.Name(), "exec-1", "cgroup.events"), []byte("populated 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return group
}
