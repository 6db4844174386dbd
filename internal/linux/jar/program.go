//go:build linux

package jar

import (
	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// Namespaces are the namespaces of the first process from its clone on. The cgroup namespace follows when it is in its
// cgroup.
const Namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Enter appends the beginning of a birth, before its Sync: the process gets its budgets, moves into the cgroups that it was
// not cloned into, hides those above them, and stops sharing its mounts.
func (b *Birth) Enter(p *forkexec.Program) {
	p.Step(StepUserNS)
	bound(p)
	p.Step(StepCgroup)
	for _, fd := range b.tasks() {
		p.Call(unix.SYS_WRITE, forkexec.Int(fd), p.Str("0"), forkexec.Int(1))
	}
	p.Call(unix.SYS_UNSHARE, forkexec.Int(unix.CLONE_NEWCGROUP))
	p.Step(StepMount)
	p.Call(unix.SYS_MOUNT, p.Str("none"), p.Str("/"), forkexec.Int(0), forkexec.Int(unix.MS_REC|unix.MS_PRIVATE), forkexec.Int(0))
}

// SetID sets an id that the process's user namespace maps, and clears the groups.
func SetID(p *forkexec.Program, id int) {
	p.Call(unix.SYS_SETGROUPS, forkexec.Int(0), forkexec.Int(0))
	p.Call(unix.SYS_SETRESGID, forkexec.Int(id), forkexec.Int(id), forkexec.Int(id))
	p.Call(unix.SYS_SETRESUID, forkexec.Int(id), forkexec.Int(id), forkexec.Int(id))
}

// SetDumpable gives the process's user access to its /proc entries, which a change of ids removes. The process that it was
// forked from may have lost that access, too: a change of user in any process that shared its memory removes it.
func SetDumpable(p *forkexec.Program) {
	p.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_SET_DUMPABLE), forkexec.Int(1), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
}

// Pivot makes an open folder the root. Afterwards the old root cannot be reached.
func Pivot(p *forkexec.Program, root forkexec.Arg) {
	p.Step(StepPivot)
	p.Call(unix.SYS_FCHDIR, root)
	p.Call(unix.SYS_PIVOT_ROOT, p.Str("."), p.Str("."))
	// The old root is now mounted over the new one. A failure here is fatal: the old root would stay reachable.
	p.Call(unix.SYS_UMOUNT2, p.Str("."), forkexec.Int(unix.MNT_DETACH))
	p.Call(unix.SYS_CHDIR, p.Str("/"))
}

// Leave replaces the standard streams, closes all descriptors but the inherited ones and starts a new session.
func (b *Birth) Leave(p *forkexec.Program) {
	p.Step(StepAgent)
	for fd := range 3 {
		p.Call(unix.SYS_DUP3, forkexec.Int(int(b.Jar.rack.null.Fd())), forkexec.Int(fd), forkexec.Int(0))
	}
	p.Call(unix.SYS_CLOSE_RANGE, forkexec.Int(3), forkexec.Int(uint32(1<<32-1)), forkexec.Int(unix.CLOSE_RANGE_CLOEXEC))
	for _, fd := range b.inherited {
		p.Call(unix.SYS_FCNTL, forkexec.Int(fd), forkexec.Int(unix.F_SETFD), forkexec.Int(0))
	}
	p.Call(unix.SYS_SETSID)
}

// Program is the descriptor of the agent's program, for a birth that needs it as a file.
func (b *Birth) Program() int { return b.Jar.rack.Agent.fd() }

// Exec ends the program: the process becomes the agent.
func (b *Birth) Exec(p *forkexec.Program, args, env []string) {
	p.Step(StepAgent)
	p.ExecFD(b.Jar.rack.Agent.fd(), append([]string{AgentName}, args...), env)
}
