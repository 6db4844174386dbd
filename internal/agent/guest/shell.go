//go:build linux

package guest

import (
	"time"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// maxShells is the maximum number of shells in one sandbox.
const maxShells = 16

// shell runs commands one at a time, in the order of their requests. Its process may end and be replaced.
type shell struct {
	a    *Agent
	last chan struct{} // closed when the newest command's turn is over; guarded by the agent's lock

	// Guarded by the agent's lock, too.
	spec   wire.Exec     // of its first command, without the parts that are specific to that command
	born   time.Time     // when the first command came
	used   time.Time     // when the last command ended
	runs   int           // commands so far
	living *shellProcess // its latest process; nil for none
	idle   *time.Timer   // ends it; nil while it is busy
	ended  bool          // no command starts in it any longer

	processes []*shellProcess // living, and earlier ones that have left processes
	retired   *shellProcess   // the process that was ended because it was idle; nil for none

	// Only the active command uses these.
	proc *shellProcess // nil before the first command, and after a command has ended it
	had  bool          // it has had a process
	cwd  string        // where the next process starts; "" uses its command's
}

// command is the state of an exec that runs in a shell.
type command struct {
	e      *exec
	shell  *shell
	before <-chan struct{} // closed when its turn comes
	after  chan struct{}   // closed when its turn is over

	// Set by begin.
	proc      *shellProcess
	id        string          // identifies the command in the shell's reports
	opened    chan struct{}   // closed when the shell has opened the command's streams
	opening   <-chan struct{} // the same; nil once it has been handled
	result    chan int        // its status; of one element
	survivors map[int]uint64  // processes that earlier commands left: pid and start time
	replaced  bool            // it started in a new shell, although the previous command had left one
	renewed   bool            // it started in a new shell, and an earlier command in another
	used      cpuTime         // by the shell and its dead children, when it started
	streams   streams

	shown int  // bytes of results; guarded by the lock of its process, like the field below
	cut   bool // further results are dropped
}

// enqueue adds a command to its shell's queue. The agent is locked.
func (a *Agent) enqueue(e *exec) error {
	sh := a.shells[e.spec.Shell.Name]
	if sh == nil {
		if len(a.shells) >= maxShells {
			return fault.New(wire.CodeTooLarge, "agent has %d shells already", maxShells)
		}
		first := make(chan struct{})
		close(first)
		sh = &shell{a: a, last: first, born: time.Now(), spec: wire.Exec{Cwd: e.spec.Cwd, Shell: &wire.ShellRun{Kernel: e.spec.Shell.Kernel}}}
		a.shells[e.spec.Shell.Name] = sh
	}
	if kernel := sh.spec.Shell.Kernel; kernel != e.spec.Shell.Kernel {
		return fault.Invalid("shell %q is of kernel %q", e.spec.Shell.Name, kernel)
	}
	sh.busy(!e.spec.Shell.Complete)
	c := &command{e: e, shell: sh, before: sh.last, after: make(chan struct{})}
	sh.last = c.after
	e.command, e.began = c, time.Now()
	if e.spec.Stdin {
		e.inlet = &inlet{} // buffers stdin until the command starts
	}
	return nil
}

// enter starts a command whose turn has already come, so that a start failure is the reply to its request. Others start when their
// predecessors have ended.
func (c *command) enter() error {
	if isClosed(c.before) {
		if err := c.begin(); err != nil {
			c.yield()
			return err
		}
	}
	return nil
}

// checkShell validates a command of a shell.
func checkShell(spec wire.Exec) error {
	const maxName, leastFiles = 64, 32
	files, limited := spec.Rlimits["nofile"]
	switch {
	case len(spec.Shell.Cmd) == 0:
		return fault.Invalid("shell without a command")
	case len(spec.Shell.Name) > maxName:
		return fault.Invalid("shell's name of %d bytes", len(spec.Shell.Name))
	case spec.Shell.Kernel != "" && (kernels[spec.Shell.Kernel] == nil || !spec.Shell.Separate):
		return fault.Invalid("kernel %q is not known, or not separate", spec.Shell.Kernel)
	case spec.Shell.IdleMS < 0:
		return fault.Invalid("idle time of %d ms", spec.Shell.IdleMS)
	case spec.CPUTimeMS > 0: // jobs of earlier commands would use it up
		return fault.Invalid("exec %q is for a shell, whose commands have no processor time of their own", spec.ID)
	case len(spec.Argv) > 0, spec.PTY != nil, spec.KillAll:
		return fault.Invalid("exec %q is for a shell, which has a program, a terminal and survivors of its own", spec.ID)
	case limited && files < leastFiles:
		return fault.Invalid("shell with %d descriptors, which needs %d", files, leastFiles)
	}
	for _, b := range spec.Shell.Cmd {
		if b == 0 {
			return fault.Invalid("NUL byte in a shell's command")
		}
	}
	return nil
}
