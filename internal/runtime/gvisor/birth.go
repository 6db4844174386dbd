//go:build linux

package gvisor

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

// Ids in the jar: runsc is root of its user namespace and nowhere else, and runs the sentry as nobody. Those inside the
// sandbox are gVisor's own, and nothing on the host.
const (
	jarRoot  = 0
	nobodyID = 65534
)

// Steps of building a sandbox, as a [runtime.StepError] names them.
const (
	stepState    = "state"
	stepProgram  = "runsc" // belljar-runsc is missing, or has failed
	stepUser     = "user"
	stepUserNS   = "userns"
	stepCgroup   = "cgroup"
	stepNetwork  = "network"
	stepImage    = "image"
	stepMount    = "mount"
	stepProc     = "proc"
	stepDev      = "dev"
	stepPivot    = "pivot_root"
	stepSeccomp  = "seccomp"
	stepAgent    = "agent"
	stepSnapshot = "snapshot"
	stepBirth    = "birth" // no step of its own: the processes were killed, stopped, or given up
)

// cloneFlags are the namespaces that a jar is born into. The network is runsc's to make, for the sentry and the gofer
// each: the keep needs none, and without a capability of the host's it can do nothing there.
const cloneFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// plan is what one sandbox is built from. Descriptors are the parent's.
type plan struct {
	workspace runtime.Workspace
	asked     belljar.Limits
	limits    limits
	lease     time.Duration
	user      rootfs.User
	root      *rootfs.Tree
	image     string // the unpacked image's folder; "" for the host's own programs
	runsc     string
	agentFile string
	platform  string
	filter    []byte
	config    []byte // of the bundle
	snapshot  *folder
	taskFDs   []int // cgroup v1 tasks files to enter
	keepFDs   []int // what the keep inherits
	null      int
	keep      int    // memfd of its program
	argument  string // the keep's configuration, JSON
}

// descriptors are those of the parent that the program uses.
func (pl *plan) descriptors() []int {
	return slices.Concat([]int{pl.null, pl.keep}, pl.taskFDs, pl.keepFDs)
}

// program writes the birth of a jar down in p. The order is the security argument: namespaces first, in which the root
// is built and pivoted into, so that there is no way back to the host's files; and only then does anything run.
func (pl *plan) program(p *forkexec.Program) {
	m := mount.New(p)

	// Until Sync the parent writes our id maps, beside us; nothing before it needs them.
	p.Step(stepCgroup)
	for _, fd := range pl.taskFDs {
		p.Call(unix.SYS_WRITE, forkexec.Int(fd), p.Str("0"), forkexec.Int(1))
	}
	p.Call(unix.SYS_UNSHARE, forkexec.Int(unix.CLONE_NEWCGROUP))
	p.Step(stepMount)
	p.Call(unix.SYS_MOUNT, p.Str("none"), p.Str("/"), forkexec.Int(0), forkexec.Int(unix.MS_REC|unix.MS_PRIVATE), forkexec.Int(0))
	from := pl.openSources(p)
	p.Step(stepUserNS)
	p.Sync()
	p.Call(unix.SYS_SETGROUPS, forkexec.Int(0), forkexec.Int(0))
	p.Call(unix.SYS_SETRESGID, forkexec.Int(jarRoot), forkexec.Int(jarRoot), forkexec.Int(jarRoot))
	p.Call(unix.SYS_SETRESUID, forkexec.Int(jarRoot), forkexec.Int(jarRoot), forkexec.Int(jarRoot))
	// Makes our own /proc entries ours again, which the change of ids takes away.
	p.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_SET_DUMPABLE), forkexec.Int(1), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
	root := pl.build(p, m, from)

	p.Step(stepPivot)
	p.Call(unix.SYS_FCHDIR, root)
	p.Call(unix.SYS_PIVOT_ROOT, p.Str("."), p.Str("."))
	// The old root now lies over the new one. Without it there is no way back, so a failure here is fatal.
	p.Call(unix.SYS_UMOUNT2, p.Str("."), forkexec.Int(unix.MNT_DETACH))
	p.Call(unix.SYS_CHDIR, p.Str("/"))

	p.Step(stepAgent)
	for fd := range 3 {
		p.Call(unix.SYS_DUP3, forkexec.Int(pl.null), forkexec.Int(fd), forkexec.Int(0))
	}
	p.Call(unix.SYS_CLOSE_RANGE, forkexec.Int(3), forkexec.Int(uint32(1<<32-1)), forkexec.Int(unix.CLOSE_RANGE_CLOEXEC))
	for _, fd := range pl.keepFDs {
		p.Call(unix.SYS_FCNTL, forkexec.Int(fd), forkexec.Int(unix.F_SETFD), forkexec.Int(0))
	}
	p.Call(unix.SYS_SETSID)
	p.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_SET_NO_NEW_PRIVS), forkexec.Int(1), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
	p.ExecFD(pl.keep, []string{agentName, keepCommand, pl.argument}, agentEnv())
}

// enough makes a range map the two ids that a jar has. Where the user has but one, both roots are that one, and gVisor
// is told to do without nobody.
func enough(ids *idmap.Range) error {
	for _, id := range []int{jarRoot, nobodyID} {
		if ids.HostUID(id) < 0 || ids.HostGID(id) < 0 {
			return errFewIDs
		}
	}
	return nil
}
