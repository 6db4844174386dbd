//go:build linux

package native_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/need"
)

// The folder of sandboxes may be mounted noexec, as /run is on Debian and Ubuntu. Packages there are refused: programs could not load their
// libraries.
func TestFoldersAreNoExec(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("belljar-test", dir, "tmpfs", unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV, "mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	r := open(t, dir)
	s := spec()
	box, err := r.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, box, "echo", "works"); got != "works\n" {
		t.Errorf("%q", got)
	}
	s = spec()
	s.Root.Layers = []runtime.Layer{{Name: "pip", Dir: dir}}
	var step *runtime.StepError
	if _, err := r.Create(t.Context(), s); !errors.As(err, &step) || !strings.Contains(step.Error(), dir+" is on a file system mounted noexec") ||
		!strings.Contains(step.Hint, "SANDBOX_DATA") {
		t.Errorf("%v: %+v", err, step)
	}
}
