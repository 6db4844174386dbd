//go:build linux

package jar

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

func TestHint(t *testing.T) {
	for _, c := range []struct {
		step  string
		errno unix.Errno
		want  string
	}{
		{"clone", unix.ENOSPC, "max_user_namespaces"},
		{"network", unix.ENOSPC, "max_net_namespaces"},
		{"inner_userns", unix.ENOSPC, "max_mnt_namespaces"},
		{"mount", unix.ENOSPC, ""},
		{"proc", unix.EMFILE, "ulimit -n"},
		{"clone", unix.EPERM, "forbids user namespaces"},
		{"proc", unix.EPERM, "systempaths=unconfined"},
		{"mount", unix.EPERM, "doctor"},
		{"mount", unix.ENOSYS, "5.12"},
	} {
		got := hint(&forkexec.Error{Step: c.step, Errno: c.errno})
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s, %v: %q", c.step, c.errno, got)
		}
	}
}

// The error for a user without a folder for a rack's files names both settings that provide one. Root has no such
// setting.
func TestNoFolder(t *testing.T) {
	o := options(t.TempDir())
	o.RunDir = "/proc/none"
	_, err := Open(o)
	user := os.Geteuid() != 0
	if e, is := errors.AsType[*stepError](err); !is || e.step != StepState || strings.Contains(e.hint, "XDG_RUNTIME_DIR") != user ||
		strings.Contains(e.hint, "TMPDIR") != user || strings.Contains(e.hint, "root") == user {
		t.Errorf("%+v", err)
	}
}

// Tests do not run in a chroot, but the mounts in one are known.
func TestNoRoot(t *testing.T) {
	for mounts, want := range map[string]bool{
		"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n23 22 0:21 / /proc rw - proc proc rw\n": false,
		"23 22 254:0 /usr /usr rw - ext4 /dev/root rw\n24 22 0:21 / /proc rw - proc proc rw\n":            true,
	} {
		if got := noRoot(mounts); got != want {
			t.Errorf("%v for %q", got, mounts)
		}
	}
}
