//go:build linux

package gvisor_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/need"
)

// noExec returns a folder that is mounted noexec.
func noExec(t *testing.T) string {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("belljar-test", dir, "tmpfs", unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV, "mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// Debian and Ubuntu mount /run noexec, and Docker /dev/shm: no file in the folder of sandboxes can be executed.
func TestFolderIsNoExec(t *testing.T) {
	r := open(t, noExec(t))
	s := spec()
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	counting(t, box)
	if got := run(t, box, "stat -c '%a %u' /.belljar-agent; (echo >>/.belljar-agent) 2>/dev/null || echo sealed"); got != "555 0\nsealed\n" {
		t.Errorf("the agent's file: %q", got)
	}
	saved := snapshot(t, box)
	again := s
	again.ID = belljar.NewID()
	twin, err := r.Restore(context.Background(), again, saved)
	if err != nil {
		t.Fatal(err)
	}
	beyond(t, twin, count(t, twin))
}

// Packages on a data folder that is mounted noexec are refused: gVisor would kill programs that load their libraries.
func TestPackagesAreNoExec(t *testing.T) {
	dir := noExec(t)
	r := open(t, t.TempDir())
	s := spec()
	s.Root.Layers = []runtime.Layer{{Name: "pip", Dir: dir}}
	var step *runtime.StepError
	if _, err := r.Create(t.Context(), s); !errors.As(err, &step) || !strings.Contains(step.Error(), dir+" is on a file system mounted noexec") ||
		!strings.Contains(step.Hint, "SANDBOX_DATA") {
		t.Errorf("%v: %+v", err, step)
	}
}
