//go:build linux

package guest

import (
	"os"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/process"
	"golang.org/x/sys/unix"
)

// Bounds of killing a command. A sweep that finds a new process after all these rounds does not converge.
const (
	maxSweeps = 64
	// headTime is how long a cgroup that was killed is given before its processes are looked at one by one.
	headTime = 100 * time.Millisecond
	// settleTime is how long a keeper is given to report that its command has left no process, which it does at once.
	settleTime = 2 * time.Millisecond
)

// term asks every process to end, and gives them grace to do so. A further request to end may shorten it.
func (e *exec) term(grace time.Duration) {
	if grace <= 0 {
		return
	}
	for _, p := range e.processes() {
		p.Signal(unix.SIGTERM)
		p.Signal(unix.SIGCONT) // a stopped process would not notice
		p.Close()
	}
	until := time.Now().Add(grace)
	for {
		timer := time.NewTimer(time.Until(until))
		select {
		case <-e.empty:
			timer.Stop()
			return
		case <-timer.C:
			return
		case <-e.a.stop:
			timer.Stop()
			return
		case want := <-e.ends:
			timer.Stop()
			if sooner := time.Now().Add(want.grace); sooner.Before(until) {
				until = sooner
			}
		}
	}
}

// kill ends every process of the command and waits until none is left; false if that cannot be reached.
func (e *exec) kill() bool {
	if e.group != nil {
		if e.group.Kill() != nil {
			return false
		}
		// The kernel kills by way of a process's first thread, and not a process that has lost it.
		if e.group.WaitEmpty(headTime) != nil && !e.sweep() {
			return false
		}
		return e.group.WaitEmpty(process.KillTime) == nil && e.await(process.KillTime)
	}
	if e.killAlone() {
		return e.await(process.KillTime)
	}
	return e.sweep()
}

// await waits until the keeper has reported that nothing is left, or has gone itself.
func (e *exec) await(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.empty:
		return true
	case <-timer.C:
		return false
	}
}

// killAlone kills everything in our process namespace at once, if that is this command and nothing else. No fork can
// slip through: the kernel does it under a lock.
func (e *exec) killAlone() bool {
	a := e.a
	if a.reaper == nil || os.Getpid() != 1 {
		return false
	}
	a.mu.Lock()
	if len(a.unborn) > 0 || len(a.alive) != 1 {
		a.mu.Unlock()
		return false
	}
	none := a.reaper.Childless()
	before := a.reaper.Usage()
	err := unix.Kill(-1, unix.SIGKILL)
	a.mu.Unlock()
	a.reaper.Poke()
	if err != nil && err != unix.ESRCH {
		return false
	}
	timer := time.NewTimer(process.KillTime)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
		return false
	}
	swept := a.reaper.Usage().Since(before)
	e.swept = &swept
	return true
}

// sweep kills the keeper's descendants, and those of a keeper that is gone, until none is left.
func (e *exec) sweep() bool { return process.Sweep(maxSweeps, e.processes, e.await) }
