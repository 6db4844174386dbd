//go:build linux

package guest

import (
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/wire"
)

// maxStarts is how many successive shells may die before they have opened a command's streams. A job that kills every shell must
// be reported at some point.
const maxStarts = 3

// begin starts a command when its turn has come.
func (c *command) begin() error {
	var random [8]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return err
	}
	c.id = hex.EncodeToString(random[:])
	c.opened, c.result = make(chan struct{}), make(chan int, 1)
	c.opening = c.opened
	if err := c.provide(); err != nil {
		return c.refuse(err)
	}
	c.proc.reset()
	c.survivors = c.proc.survivors()
	c.used = c.proc.used()
	if err := c.e.a.own.As(c.proc.user, func() error { return c.streams.open(c.e) }); err != nil {
		c.streams.close()
		c.e.outlets = nil
		return c.refuse(err)
	}
	c.e.mu.Lock()
	c.e.began, c.e.pid = time.Now(), c.proc.exec.pid
	c.e.mu.Unlock()
	// A shell that cannot receive the command has ended, as its keeper will report.
	_ = c.proc.take(c)
	return nil
}

// refuse reports why a command could not start.
func (c *command) refuse(err error) error {
	var remote *wire.Error
	if errors.As(err, &remote) || errors.Is(err, fault.ErrDisconnected) {
		return err
	}
	fault := &wire.Error{Code: wire.CodeExecFailed, Message: "shell: " + err.Error(), Step: stepTerminal}
	var errno unix.Errno
	if errors.As(err, &errno) {
		fault.Errno = int(errno)
	}
	return fault
}

// provide returns the shell's process, and starts one if the last has ended.
func (c *command) provide() error {
	sh := c.shell
	if sh.over() {
		return fault.New(wire.CodeNotFound, "shell %q has been ended", c.e.spec.Shell.Name)
	}
	if sh.leaves(sh.proc) { // it would be killed in the middle of the command
		select {
		case <-sh.proc.exec.exited:
		case <-time.After(process.KillTime):
		}
	}
	if sh.proc != nil && isClosed(sh.proc.exec.exited) {
		sh.proc.close()
		sh.proc, c.replaced = nil, !c.e.spec.Shell.Fresh
	}
	if sh.proc == nil {
		if c.e.spec.Shell.Fresh {
			sh.cwd = ""
		}
		p, err := sh.a.startShell(c.e.spec, sh.cwd)
		if err != nil && sh.cwd != "" { // its directory may be missing
			sh.cwd = ""
			p, err = sh.a.startShell(c.e.spec, "")
		}
		if err != nil {
			return err
		}
		c.renewed = sh.had && !c.e.spec.Shell.Fresh
		sh.proc, sh.had = p, true
		sh.live(p)
		if dir := p.dir(); dir != "" {
			sh.cwd = dir
		}
	}
	c.e.mu.Lock()
	c.proc = sh.proc
	c.e.mu.Unlock()
	return nil
}

// handleReport handles the shell's report about the command. Its process is locked.
func (c *command) handleReport(open bool, status int) {
	if open {
		if !isClosed(c.opened) {
			close(c.opened)
		}
		return
	}
	select {
	case c.result <- status:
	default:
	}
}

// life runs a command from its place in the queue to its outcome, and returns when no process writes to its streams.
func (c *command) life() {
	e := c.e
	defer e.a.lives.Done()
	if !c.await() {
		return
	}
	exit := c.run()
	c.finish(exit)
	c.discardOutput()
}

// await waits for the command's turn and starts it. If that fails, it publishes the outcome and returns false.
func (c *command) await() bool {
	if c.proc != nil {
		return true
	}
	exit := &wire.Exit{Code: -1, Signal: int(unix.SIGTERM), Cause: wire.CauseEnded}
	select {
	case <-c.before:
		err := c.begin()
		if err == nil {
			return true
		}
		// Its request has been answered already.
		c.e.keep(wire.Stderr, []byte("belljar: "+err.Error()+"\n"))
		exit = &wire.Exit{Code: 126, Cause: wire.CauseExited}
		c.yield()
	case <-c.e.ends:
		c.pass()
	case <-c.e.a.stop:
		c.pass()
	}
	c.publish(exit)
	c.e.closeInlet()
	return false
}

// pass passes the turn on as soon as it comes.
func (c *command) pass() {
	c.e.a.lives.Add(1)
	go func() {
		defer c.e.a.lives.Done()
		<-c.before
		c.yield()
	}()
}

// yield ends the command's turn.
func (c *command) yield() {
	close(c.after)
	c.shell.rest(milliseconds(c.e.spec.Shell.IdleMS))
}

// run waits for the command's end, or ends it.
func (c *command) run() *wire.Exit {
	for _, o := range c.e.outlets {
		go o.run()
	}
	for starts := 1; ; starts++ {
		exit := c.follow()
		if exit != nil {
			return exit
		}
		if starts == maxStarts {
			return c.died()
		}
		// The shell died, or was discarded, before it had the command, which another one can run.
		c.proc.leave()
		if err := c.provide(); err != nil {
			c.e.keep(wire.Stderr, []byte("belljar: "+err.Error()+"\n"))
			return &wire.Exit{Code: 126, Cause: wire.CauseExited}
		}
		survivors := c.proc.survivors()
		c.e.mu.Lock()
		c.survivors, c.used = survivors, c.proc.used()
		c.e.mu.Unlock()
		_ = c.proc.take(c)
	}
}

// follow waits for the command's end in its shell; nil if the shell died before it had the command, or can run no more commands.
func (c *command) follow() *wire.Exit {
	var timeout <-chan time.Time
	if c.e.spec.TimeoutMS > 0 {
		timeout = time.After(time.Until(c.e.began.Add(milliseconds(c.e.spec.TimeoutMS))))
	}
	for {
		select {
		case <-c.opening:
			c.handOver()
		case status := <-c.result:
			if !isClosed(c.opened) {
				// The shell returned without starting the command: an earlier one has broken it.
				c.replace()
				return nil
			}
			return c.back(status)
		case <-c.proc.exec.exited:
			c.proc.catchUp()
			if !isClosed(c.opened) {
				return nil
			}
			select {
			case status := <-c.result: // it ended after the command
				return c.back(status)
			default:
			}
			return c.died()
		case <-timeout:
			return c.end(wire.CauseTimeout, milliseconds(c.e.spec.GraceMS))
		case want := <-c.e.ends:
			return c.end(want.cause, want.grace)
		case <-c.e.a.stop:
			return c.end(wire.CauseEnded, 0)
		}
	}
}

// handOver leaves the streams to the shell, which has opened them: until we have closed its ends, it cannot meet the end of its input.
func (c *command) handOver() {
	c.opening = nil
	c.release()
	if c.e.inlet != nil {
		go c.e.feeder()
	}
}

// release releases the shell's ends of the streams.
func (c *command) release() {
	if len(c.streams.names) == 0 {
		c.streams.release()
		return
	}
	_ = c.e.a.own.As(c.proc.user, func() error {
		c.streams.release()
		return nil
	})
}

// back returns the outcome of a command from which the shell has returned.
func (c *command) back(status int) *wire.Exit {
	exit := &wire.Exit{Code: status, Cause: wire.CauseExited, Usage: c.usage()}
	if !c.e.spec.Shell.Complete {
		c.proc.status = status
	}
	if dir := c.proc.dir(); dir != "" {
		c.shell.cwd = dir
	}
	return exit
}

// died returns the outcome of a command that has ended its shell.
func (c *command) died() *wire.Exit {
	exit := &wire.Exit{Code: -1, Cause: wire.CauseExited, Usage: c.usage()}
	host := c.proc.exec
	if host.first == nil {
		exit.Cause = wire.CauseLost
	} else {
		host.setStatus(exit)
	}
	c.shell.proc, c.replaced = nil, true
	return exit
}

// finish drains the command's output, passes the turn on, and publishes the outcome.
func (c *command) finish(exit *wire.Exit) {
	e := c.e
	exit.WallMS = float64(time.Since(e.began)) / float64(time.Millisecond)
	exit.Cwd = c.shell.cwd
	exit.Shell = &wire.ShellExit{Replaced: c.replaced, Renewed: c.renewed && c.shell.proc != nil, Program: c.proc.program()}
	c.release()
	c.proc.drainTerminal()
	e.drainOutlets()
	c.proc.leave()
	if c.shell.proc != c.proc {
		c.proc.close()
	}
	e.closeInlet()
	c.yield()
	c.publish(exit)
}

func (c *command) publish(exit *wire.Exit) {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	exit.Position, exit.Dropped = e.spool.Next, e.spool.Dropped
	e.exit = exit
	e.change.Broadcast()
}

// discardOutput reads and drops the output of the command's survivors, until they have ended.
func (c *command) discardOutput() {
	silent := make(chan struct{})
	go func() {
		defer close(silent)
		var all sync.WaitGroup
		for _, o := range c.e.outlets {
			all.Go(func() { <-o.ended })
		}
		all.Wait()
	}()
	select {
	case <-silent:
	case <-c.e.a.stop: // they are being killed
	}
	c.streams.close()
	<-silent
}

// signal sends a signal to the foreground job.
func (c *command) signal(s unix.Signal) error {
	c.e.mu.Lock()
	p, survivors := c.proc, c.survivors
	c.e.mu.Unlock()
	if p == nil || p.current() != c {
		return fault.New(wire.CodeNotFound, "exec %q does not run", c.e.spec.ID)
	}
	if err := unix.Kill(-p.foreground(survivors), s); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}

// cpuTime is CPU time in microseconds, and its source.
type cpuTime struct {
	user, system uint64
	source       string
}

// used returns the CPU time of the shell, its dead children and its dead orphans, or with a cgroup of all that it has started.
func (p *shellProcess) used() cpuTime {
	if g := p.exec.group; g != nil {
		if user, system, err := g.Cpu(); err == nil {
			return cpuTime{user, system, "cgroup2"}
		}
	}
	if isClosed(p.exec.exited) { // its pid may be reused
		return p.usedInAll()
	}
	own, adopted := timesOf(p.exec.pid), timesOf(p.exec.keeper.Pid)
	if own.source == "" || adopted.source == "" {
		return cpuTime{}
	}
	return cpuTime{own.user + adopted.user, own.system + adopted.system, own.source}
}

// timesOf reads the CPU time of a process and its dead children.
func timesOf(pid int) cpuTime {
	raw, err := process.ReadSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return cpuTime{}
	}
	user, system, ok := parseTimes(raw)
	if !ok {
		return cpuTime{}
	}
	return cpuTime{user, system, "proc"}
}

// usedInAll is used for a process that has ended.
func (p *shellProcess) usedInAll() cpuTime {
	e := p.exec
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.exit != nil && e.exit.Usage.Source == "cgroup2" { // the cgroup is removed after this was read
		return cpuTime{e.exit.Usage.UserMicros, e.exit.Usage.SystemMicros, "cgroup2"}
	}
	if e.first == nil {
		return cpuTime{}
	}
	return cpuTime{e.first.UserMicros, e.first.SystemMicros, "proc"}
}

// usage returns the command's usage, as far as it is known.
func (c *command) usage() wire.Usage {
	now := c.proc.used()
	if now.source == "" || now.source != c.used.source {
		return wire.Usage{}
	}
	since := func(now, before uint64) uint64 { return max(now, before) - before } // one may be in ticks, the other in microseconds
	return wire.Usage{UserMicros: since(now.user, c.used.user), SystemMicros: since(now.system, c.used.system), Source: now.source}
}
