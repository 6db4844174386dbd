//go:build linux

package jar

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

func TestHint(t *testing.T) {
	for _, c := range []struct {
		step       string
		errno      unix.Errno
		restricted bool
		want       string
	}{
		{"clone", unix.ENOSPC, false, "max_user_namespaces"},
		{"network", unix.ENOSPC, false, "max_net_namespaces"},
		{"inner_userns", unix.ENOSPC, false, "max_mnt_namespaces"},
		{"mount", unix.ENOSPC, false, ""},
		{"clone", unix.EPERM, false, "forbids user namespaces"},
		{"clone", unix.EPERM, false, "in a chroot"},
		{"proc", unix.EPERM, false, "systempaths=unconfined"},
		{"mount", unix.EPERM, false, "doctor"},
		{"mount", unix.ENOSYS, false, "5.12"},
		{"cgroup", unix.EPERM, true, "security.md#ubuntu"},
		{"proc", unix.EACCES, true, "security.md#ubuntu"},
		{"mount", unix.ENOSYS, true, "5.12"},
	} {
		got := hint(&forkexec.Error{Step: c.step, Errno: c.errno}, c.restricted)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s, %v: %q", c.step, c.errno, got)
		}
	}
}

// A birth that gets no process fails for a reason that passes, whichever step it was at.
func TestExplainCrowded(t *testing.T) {
	errs := options(t.TempDir()).Errors
	for _, step := range []string{"clone", "inner_userns", StepAgent} {
		err := errs.explain(t.Context(), &forkexec.Error{Step: step, Errno: unix.EAGAIN})
		e, is := errors.AsType[*stepError](err)
		if !is || !errors.Is(err, errFull) || !errors.Is(err, unix.EAGAIN) || e.step != step || !strings.Contains(e.hint, "pid_max") {
			t.Errorf("%s: %+v", step, err)
		}
	}
}

// AppArmor restricts the user namespaces of programs without a profile, if the host's rule is on.
func TestRestricted(t *testing.T) {
	for name, c := range map[string]struct {
		rule, profile string
		want          bool
	}{
		"no AppArmor":          {"", "", false},
		"no profile":           {"1\n", "unconfined\n", true},
		"the rule is off":      {"0\n", "unconfined\n", false},
		"Belljar's profile":    {"1\n", "belljar (unconfined)\n", false},
		"the engine's profile": {"1\n", "docker-default (enforce)\n", false},
	} {
		proc := t.TempDir()
		for file, text := range map[string]string{"sys/kernel/apparmor_restrict_unprivileged_userns": c.rule, "self/attr/current": c.profile} {
			if text == "" {
				continue
			}
			path := filepath.Join(proc, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if got := restricted(proc); got != c.want {
			t.Errorf("%s: %v", name, got)
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
