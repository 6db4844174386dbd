//go:build linux

package jar

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// Steps of making a jar, or of preparing it, as [Errors.Step] receives them. A runtime has additional ones.
const (
	StepState  = "state"
	StepUserNS = "userns"
	StepCgroup = "cgroup"
	StepImage  = "image"
	StepMount  = "mount"
	StepProc   = "proc"
	StepDev    = "dev"
	StepPivot  = "pivot_root"
	StepAgent  = "agent"
	StepBirth  = "birth" // not a step: the processes were killed or stopped, or the birth was cancelled
)

// Errors are the runtime's own errors for the failures of a rack.
type Errors struct {
	// Step makes an error that names the failed step, with a hint, "" if there is none.
	Step    func(step string, err error, hint string) error
	Unknown error // the jar does not exist
	Gone    error // the jar has ended
	NoImage error // the image does not exist, or was removed
	Full    error // no host ids are left, or no processes
}

// Hints for failures of more than one step.
const (
	// KilledHint is for a birth that was killed from outside.
	KilledHint = "something on this host killed it, most likely the out-of-memory killer: look for oom in the kernel's log"
	// NamespaceHint is for a birth that may not make a user namespace.
	NamespaceHint = "this host forbids user namespaces: allow kernel.unprivileged_userns_clone, or load the AppArmor profile in deploy/apparmor, or in a container allow the clone and unshare system calls"
	// appArmorHint is for a birth whose user namespace has no rights, which shows at the first step that needs one.
	appArmorHint = "AppArmor leaves user namespaces of this program without rights: load the profile in deploy/apparmor, as docs/security.md#ubuntu shows"
	// crowdedHint is for a birth that gets no process. The cause passes.
	crowdedHint = "try again later: all sandboxes together may have three quarters of the processes that kernel.pid_max, kernel.threads-max and belljar's own limits allow"
	doctorHint  = "run \"belljar doctor\" to see what this host can limit"
	helperHint  = "newuidmap and newgidmap must be installed setuid root, and a container needs CAP_SETUID, CAP_SETGID and no \"no new privileges\" for them"
	idsHint     = "run \"belljar doctor\" to see the ids that this host offers"
)

// explain turns the failure of a child into a step with a hint.
func (e Errors) explain(ctx context.Context, err error) error {
	var fe *forkexec.Error
	switch {
	case errors.As(err, &fe) && fe.Step == StepImage && fe.Errno == unix.ENOENT:
		return e.Step(fe.Step, fmt.Errorf("%w: %w", e.NoImage, fe.Errno), "")
	case errors.As(err, &fe) && fe.Errno == unix.EAGAIN: // of clone, and of execve where the user has too many processes
		return e.Step(fe.Step, fmt.Errorf("%w: the host has no more processes for sandboxes: %w", e.Full, fe.Errno), crowdedHint)
	case errors.As(err, &fe):
		return e.Step(fe.Step, fe.Errno, hint(fe, os.Geteuid() != 0 && restricted("/proc")))
	case errors.Is(err, forkexec.ErrVanished):
		return e.Step(StepBirth, err, KilledHint)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return e.Step(StepBirth, err, "the host is overloaded, or something has stopped the new processes")
	}
	return e.Step(StepBirth, err, "")
}

// hint returns the usual cause of a failed step. restricted is whether this process has no rights in its user namespaces.
func hint(e *forkexec.Error, restricted bool) string {
	switch {
	case e.Errno == unix.ENOSPC && (e.Step == "clone" || e.Step == "network" || strings.HasPrefix(e.Step, "inner")):
		return "the limit on namespaces is reached: raise user.max_user_namespaces, user.max_net_namespaces and user.max_mnt_namespaces with sysctl"
	case e.Step == "clone" && e.Errno == unix.EPERM && chrooted():
		return "belljar runs in a chroot, in which the kernel makes no user namespaces: enter that folder as container engines do, with pivot_root"
	case e.Step == "clone" && e.Errno == unix.EPERM: // a chroot whose folder is a mount looks like a root
		return NamespaceHint + "; in a chroot the kernel makes none: enter its folder with pivot_root"
	case e.Step == "clone" || strings.HasSuffix(e.Step, StepUserNS):
		return NamespaceHint
	case (e.Errno == unix.EPERM || e.Errno == unix.EACCES) && restricted:
		return appArmorHint
	case e.Step == StepProc && e.Errno == unix.EPERM:
		return "an outer container masks /proc: start it with --security-opt systempaths=unconfined"
	case e.Errno == unix.ENOSYS:
		return "Linux 5.12 or newer is needed, and an outer container must not filter the mount system calls"
	case e.Errno == unix.EPERM:
		return "an outer container's seccomp or AppArmor profile forbids this: belljar doctor prints the flags that help"
	}
	return ""
}

// sealHint returns what usually keeps a program from being copied into memory.
func sealHint(err error) string {
	if errors.Is(err, unix.EACCES) {
		return "this host forbids programs in memory, of which the sandbox's agent is one: set vm.memfd_noexec to 0 or 1 with sysctl"
	}
	return ""
}

// restricted reports whether AppArmor takes all rights from the user namespaces of this process, which has no profile.
func restricted(proc string) bool {
	rule, err := os.ReadFile(proc + "/sys/kernel/apparmor_restrict_unprivileged_userns")
	if err != nil || strings.TrimSpace(string(rule)) != "1" {
		return false
	}
	profile, err := os.ReadFile(proc + "/self/attr/current")
	return err == nil && strings.TrimRight(string(profile), "\n\x00") == "unconfined"
}

// chrooted reports whether this process is in a chroot, as far as it can see.
func chrooted() bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && noRoot(string(mounts))
}

// noRoot reports whether none of these mounts is the root: a chroot hides that mount.
func noRoot(mountinfo string) bool {
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == "/" {
			return false
		}
	}
	return true
}
