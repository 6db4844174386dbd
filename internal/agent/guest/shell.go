//go:build linux

package guest

import (
	"time"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// maxShells bounds how many shells one sandbox has.
const maxShells = 16

// shell is where commands run one after the other, in the order of their requests. The process behind it may end and
// be replaced.
type shell struct {
	a    *Agent
	last chan struct{} // closed when the command that came last has had its turn; guarded by the agent's lock

	// The command whose turn it is has these to itself.
	proc *shellProcess // nil before the first command, and when a command has ended it
	cwd  string        // where the next process starts; "" is where its command says
}

// command is what an exec is that runs in a shell.
type command struct {
	e      *exec
	shell  *shell
	before <-chan struct{} // closed when it is its turn
	after  chan struct{}   // closed by it when its turn is over

	// Set by begin.
	proc      *shellProcess
	id        string         // by which the shell reports it
	opened    chan struct{}  // closed when the shell has the command's streams in hand
	told      chan int       // its status; of one element
	survivors map[int]uint64 // what earlier commands have left: process id and start
	replaced  bool           // the shell that it began in is a new one, though the last command had left one
	used      cpuTime        // by the shell and its dead children, when it began
	streams   streams
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
		sh = &shell{a: a, last: first}
		a.shells[e.spec.Shell.Name] = sh
	}
	c := &command{e: e, shell: sh, before: sh.last, after: make(chan struct{})}
	sh.last = c.after
	e.command, e.began = c, time.Now()
	if e.spec.Stdin {
		e.inlet = &inlet{} // what comes before the command begins waits
	}
	return nil
}

// enter starts a command whose turn it is already, so that what keeps it from starting is an answer to its request.
// Others begin when those before them have ended.
func (c *command) enter() error {
	if isClosed(c.before) {
		if err := c.begin(); err != nil {
			close(c.after)
			return err
		}
	}
	return nil
}

// checkShell refuses what no command of a shell can be.
func checkShell(spec wire.Exec) error {
	const maxName, leastFiles = 64, 32
	files, limited := spec.Rlimits["nofile"]
	switch {
	case len(spec.Shell.Cmd) == 0:
		return fault.Invalid("shell without a command")
	case len(spec.Shell.Name) > maxName:
		return fault.Invalid("shell's name of %d bytes", len(spec.Shell.Name))
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
