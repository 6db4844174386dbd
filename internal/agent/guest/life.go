//go:build linux

package guest

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/warm"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// run starts a command's goroutines: its keeper's listener, its pipes, its stdin and its life.
func (e *exec) run() {
	if e.command != nil {
		go e.command.life()
		return
	}
	if e.forker == nil {
		go e.watch()
	}
	for _, o := range e.outlets {
		go o.run()
	}
	if e.inlet != nil {
		go e.feeder()
	}
	go e.life()
}

// life waits for the command's end, or ends it, and publishes the outcome. It returns when no process is left.
func (e *exec) life() {
	defer e.a.lives.Done()
	var timeout <-chan time.Time
	if e.spec.TimeoutMS > 0 {
		timeout = time.After(milliseconds(e.spec.TimeoutMS))
	}
	e.meter = newMeter(e)
	defer e.meter.stop()
	cause := e.cut
	var grace time.Duration
	if cause == "" {
		cause, grace = e.awaitEnd(timeout)
	}
	dead := true
	lost := cause == wire.CauseExited && e.first == nil
	switch {
	case lost:
		cause = wire.CauseLost
		<-e.empty // its children have been adopted
		dead = e.kill()
		e.settled = e.settled || dead && e.certain()
	case cause != wire.CauseExited:
		e.term(grace)
		dead = e.kill()
	case e.spec.KillAll:
		dead = e.await(settleTime) || e.kill()
	}
	if !dead {
		cause = wire.CauseKillFailed
	}
	e.drainOutlets()
	e.publish(cause)
	runtime.Gosched() // let waiters for the outcome run first: the cleanup takes as long as the report

	select {
	case <-e.empty:
	case want := <-e.ends: // of a shell that has ended, but left processes
		e.term(want.grace)
		e.kill()
	case <-e.a.stop:
		e.kill()
	}
	e.cleanUp()
	close(e.over)
	if in, _ := warm.Of(e.spec); in != nil && !e.spec.KillAll && e.pid > 0 {
		_ = e.a.park(e.spec) // if it fails, a later command parks one
	}
}

// awaitEnd waits for the command's end, or for a reason to end it.
func (e *exec) awaitEnd(timeout <-chan time.Time) (cause wire.Cause, grace time.Duration) {
	for {
		select {
		case <-e.exited:
			return wire.CauseExited, 0
		case <-timeout:
			return wire.CauseTimeout, milliseconds(e.spec.GraceMS)
		case <-e.meter.look():
			if e.meter.over() {
				return wire.CauseCPUTime, milliseconds(e.spec.GraceMS)
			}
		case want := <-e.ends:
			return want.cause, want.grace
		case <-e.a.stop:
			return wire.CauseEnded, 0
		}
	}
}

// drainOutlets waits for the remaining output: until the pipes are closed, or for drainTime.
func (e *exec) drainOutlets() {
	e.mu.Lock()
	e.drain = true
	e.change.Broadcast()
	e.mu.Unlock()
	deadline := time.Now().Add(drainTime)
	for _, o := range e.outlets {
		_ = o.file.SetReadDeadline(deadline) // fails if closed, which is fine
	}
	for _, o := range e.outlets {
		<-o.drained
	}
}

// publish publishes the outcome.
func (e *exec) publish(cause wire.Cause) {
	exit := &wire.Exit{Code: -1, Cause: cause, Usage: e.usage()}
	if cause == wire.CauseExited && e.meter.exceeded(exit.Usage) {
		exit.Cause = wire.CauseCPUTime // the command ended between two readings
	}
	ended := time.Now()
	if isClosed(e.exited) { // else kill_failed: the program is still running
		ended = e.ended
		e.setStatus(exit)
	}
	exit.WallMS = float64(ended.Sub(e.began)) / float64(time.Millisecond)
	e.mu.Lock()
	exit.Position, exit.Dropped = e.spool.Next, e.spool.Dropped
	e.exit = exit
	e.change.Broadcast()
	e.mu.Unlock()
}

// setStatus records how the first process ended.
func (e *exec) setStatus(exit *wire.Exit) {
	if e.first == nil {
		if exit.Cause != wire.CauseLost {
			exit.Signal = int(unix.SIGKILL) // ours, which also killed the keeper
		}
		return
	}
	status := unix.WaitStatus(e.first.Status)
	if status.Signaled() {
		exit.Signal = int(status.Signal())
		return
	}
	exit.Code = status.ExitStatus()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// usage is the usage of the processes reaped so far, or of all processes with a cgroup.
func (e *exec) usage() wire.Usage {
	u := wire.Usage{Source: "rusage"}
	var rec *forkexec.Record
	if isClosed(e.exited) {
		rec = e.first
	}
	if isClosed(e.empty) && e.last != nil {
		rec = e.last
	}
	switch {
	case e.swept != nil:
		u.UserMicros, u.SystemMicros, u.MaxRSS = e.swept.UserMicros, e.swept.SystemMicros, e.swept.MaxRSS
	case rec != nil:
		u.UserMicros, u.SystemMicros, u.MaxRSS = rec.UserMicros, rec.SystemMicros, rec.MaxRSS
	}
	if e.group != nil {
		if user, system, err := e.group.Cpu(); err == nil {
			u.UserMicros, u.SystemMicros, u.Source = user, system, "cgroup2"
		}
	} else if more := e.meter.missed(u); more > 0 {
		u.UserMicros, u.Source = u.UserMicros+more, "process clocks"
	}
	return u
}

// cleanUp releases the command's cgroup and descriptors.
func (e *exec) cleanUp() {
	e.a.mu.Lock()
	delete(e.a.alive, e)
	e.a.mu.Unlock()
	e.closeInlet()
	for _, o := range e.outlets {
		o.file.Close()
	}
	<-e.reaped
	if e.forker == nil {
		e.release()
	}
	if e.group != nil {
		e.group.Remove()
	}
}
