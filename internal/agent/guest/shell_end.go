//go:build linux

package guest

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/wire"
)

// How to end a command of a shell.
const (
	// settleShell is how long a shell may take to start the job that it is about to start.
	settleShell = 20 * time.Millisecond
	// minGrace is the minimum time for a command to end after an interrupt, however small its grace.
	minGrace = 250 * time.Millisecond
	// returnTime is how long a shell may take to return to its prompt once it has nothing to wait for. It normally returns immediately, but
	// on a busy machine it may be slow, and killing it would lose its variables.
	returnTime = 5 * time.Second
	// minReturnTime is the minimum for a shell that has nothing to wait for when it is interrupted.
	minReturnTime = time.Second
	// openTime is how long an interrupt waits for the shell to begin the command.
	openTime = time.Second
	// commandSweeps is the number of kill rounds after which the shell itself must be the process that keeps starting new ones.
	commandSweeps = 8
	// timedOutCode is the exit code of a command that was interrupted by its timeout, as in timeout(1).
	timedOutCode = 124
)

// end ends a command: an interrupt, TERM after half the grace, KILL after all of it, for everything that the command has started
// and nothing else. It kills the shell only if that does not return to its prompt, after another interrupt.
func (c *command) end(cause wire.Cause, grace time.Duration) *wire.Exit {
	until := time.Now().Add(grace)
	c.awaitOpen()
	group := c.interrupt()
	exit := c.wait(settleShell)
	if exit == nil && (c.proc.foreground(c.survivors) != group || !process.Handles(group, unix.SIGINT)) {
		c.interrupt() // the first may arrive before the shell has started the job
	}
	if exit == nil {
		exit = c.wait(max(grace/2, minGrace))
	}
	waited := c.term(time.Until(until))
	if exit == nil && waited && !isClosed(c.proc.exec.exited) {
		_ = unix.Kill(c.proc.exec.pid, unix.SIGSTOP) // else it would continue after its job
	}
	clean := c.sweep()
	switch {
	case exit != nil:
	case waited:
		c.interrupt()
		exit = c.wait(returnTime)
		clean = c.sweep() && clean
	default: // the shell itself does not return
		c.interrupt() // if it came just before a system call, Python notices the first after that call only
		exit = c.wait(max(time.Until(until), minReturnTime))
	}
	if exit == nil || !clean {
		exit = c.replace()
	}
	exit.Cause = cause
	switch {
	case c.shell.proc != nil && !c.sweep(), c.shell.proc == nil && !isClosed(c.proc.exec.exited):
		exit.Cause = wire.CauseKillFailed
	case cause == wire.CauseTimeout:
		exit.Code, exit.Signal = timedOutCode, 0
	}
	return exit
}

// awaitOpen waits until the shell begins the command: a signal before that would interrupt nothing, or the start of the shell. A kernel that
// gets requests reads them in their order.
func (c *command) awaitOpen() {
	if c.opening == nil || c.proc.asks() {
		return
	}
	select {
	case <-c.opening:
		c.handOver()
	case <-c.proc.exec.exited:
	case <-time.After(openTime): // something else may keep the shell busy, which the interrupt ends
	case <-c.e.a.stop:
	}
}

// interrupt acts like a terminal's interrupt key: it signals the shell, which then skips the rest of the command, and the foreground job. It
// returns the job's process group.
func (c *command) interrupt() int {
	p := c.proc
	if p.kernel != nil {
		return c.interruptKernel()
	}
	group := p.foreground(c.survivors)
	living := !isClosed(p.exec.exited) // else the shell's id may be reused by now
	if living && group != p.exec.pid {
		// The shell first: otherwise it would continue with the next command after a job that has just ended.
		_ = unix.Kill(p.exec.pid, unix.SIGINT)
		_ = unix.Kill(p.exec.pid, unix.SIGCONT)
	}
	_ = unix.Kill(-group, unix.SIGINT) // the process may have ended
	_ = unix.Kill(-group, unix.SIGCONT)
	if !living {
		return group
	}
	// The shell may have discarded the query with its input. A second reply is ignored.
	_ = p.send(p.dialect.Ask(c.id))
	return group
}

// wait waits for the shell to return to its prompt or die; nil after the timeout.
func (c *command) wait(d time.Duration) *wire.Exit {
	limit := time.After(d)
	for {
		select {
		case <-c.opening:
			if c.handOver(); !c.proc.asks() {
				c.interrupt() // the first was too early
			}
		case status := <-c.result:
			return c.back(status)
		case <-c.proc.exec.exited:
			return c.died()
		case <-limit:
			return nil
		case <-c.e.a.stop:
			return nil
		case want := <-c.e.ends:
			if want.grace < d {
				return nil
			}
		}
	}
}

// replace kills the shell.
func (c *command) replace() *wire.Exit {
	if dir := c.proc.dir(); dir != "" {
		c.shell.cwd = dir
	}
	if !isClosed(c.proc.exec.exited) {
		_ = unix.Kill(c.proc.exec.pid, unix.SIGKILL)
		resume(c.proc.exec.keeper)
	}
	select {
	case <-c.proc.exec.exited:
	case <-time.After(process.KillTime):
	}
	c.sweep()
	exit := &wire.Exit{Code: -1, Signal: int(unix.SIGKILL)}
	if isClosed(c.proc.exec.exited) {
		exit = c.died()
	}
	c.shell.proc, c.replaced = nil, true
	return exit
}

// term sends TERM to the command's remaining processes, and waits for up to grace. It reports whether there were any.
func (c *command) term(grace time.Duration) bool {
	left := process.Terminate(c.processes)
	defer func() {
		for _, p := range left {
			p.Close()
		}
	}()
	until := time.Now().Add(grace)
	for _, p := range left {
		if !c.awaitDeath(p, until) {
			break
		}
	}
	return len(left) > 0
}

// awaitDeath reports whether a process ends before until, or the agent is closed.
func (c *command) awaitDeath(p *process.Process, until time.Time) bool {
	for !isClosed(c.e.a.stop) {
		left := time.Until(until)
		if left <= 0 {
			return false
		}
		if p.Ended(time.Now().Add(min(left, minGrace))) {
			return true
		}
	}
	return false
}

// sweep kills the command's remaining processes, and reports whether none is left.
func (c *command) sweep() bool {
	return process.Sweep(commandSweeps, c.processes, func(pause time.Duration) bool {
		time.Sleep(pause) // dead processes take a moment to leave the table
		return true
	})
}

// processes returns the command's living processes: the descendants of the shell, or of the keeper of its orphans, without the
// shell and without survivors of earlier commands. The caller closes them.
func (c *command) processes() []*process.Process {
	host := c.proc.exec
	table := process.ReadTable()
	others := make(map[int]bool, len(c.survivors))
	for pid, start := range c.survivors {
		if x, ok := table[pid]; ok && x.Start == start {
			others[pid] = true
		}
	}
	var found []*process.Process
	for _, x := range process.Descendants(process.ByParent(table), host.keeper.Pid, others) {
		if x.Pid == host.pid || x.Zombie {
			continue
		}
		if p := process.Open(x); p != nil {
			found = append(found, p)
		}
	}
	return found
}

// survivors are the processes left by earlier commands: children of the shell, orphans adopted by its keeper, and all below, which may become
// such orphans while a command runs.
func (p *shellProcess) survivors() map[int]uint64 {
	left := func(parent int) bool {
		return slices.ContainsFunc(process.Children(parent), func(pid int) bool { return pid != p.exec.pid })
	}
	if !left(p.exec.pid) && !left(p.exec.keeper.Pid) {
		return nil // the usual case, without reading all processes
	}
	found := make(map[int]uint64)
	for _, x := range process.Descendants(process.ByParent(process.ReadTable()), p.exec.keeper.Pid, nil) {
		if x.Pid != p.exec.pid {
			found[x.Pid] = x.Start
		}
	}
	return found
}

// works reports whether a process that earlier commands left still runs.
func (p *shellProcess) works() bool {
	if isClosed(p.exec.empty) {
		return false
	}
	for pid := range p.survivors() {
		if x, ok := process.ReadEntry(pid); ok && !x.Zombie {
			return true
		}
	}
	return false
}

// parseTimes parses the CPU time of a process and its dead children, in microseconds, from /proc/pid/stat.
func parseTimes(raw []byte) (user, system uint64, ok bool) {
	at := bytes.LastIndexByte(raw, ')')
	if at < 0 {
		return 0, 0, false
	}
	const first, tick = 11, 10_000 // utime, stime, cutime, cstime
	fields := bytes.Fields(raw[at+1:])
	if len(fields) < first+4 {
		return 0, 0, false
	}
	var n [4]uint64
	for i := range n {
		v, err := strconv.ParseUint(string(fields[first+i]), 10, 64)
		if err != nil {
			return 0, 0, false
		}
		n[i] = v * tick
	}
	return n[0] + n[2], n[1] + n[3], true
}
