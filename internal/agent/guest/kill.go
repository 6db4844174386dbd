//go:build linux

package guest

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of killing a command. A sweep that finds somebody new after all these rounds does not converge.
const (
	killTime    = 10 * time.Second
	maxSweeps   = 64
	freezeTries = 32
	// headTime is how long a cgroup that was killed is given before its processes are looked at one by one.
	headTime = 100 * time.Millisecond
	// settleTime is how long a keeper is given to say that its command has left nobody behind, which it does at once.
	settleTime = 2 * time.Millisecond
)

// term asks every process to end, and gives them grace to do so. A further request to end may shorten it.
func (e *exec) term(grace time.Duration) {
	if grace <= 0 {
		return
	}
	for _, p := range e.processes() {
		p.signal(unix.SIGTERM)
		p.signal(unix.SIGCONT) // a stopped process would not notice
		p.close()
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
		if e.group.kill() != nil {
			return false
		}
		// The kernel kills by way of a process's first thread, and not a process that has lost it.
		if e.group.waitEmpty(headTime) != nil && !e.sweep() {
			return false
		}
		return e.group.waitEmpty(killTime) == nil && e.await(killTime)
	}
	if e.killAlone() {
		return e.await(killTime)
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
	none := a.reaper.none()
	before := a.reaper.usage()
	err := unix.Kill(-1, unix.SIGKILL)
	a.mu.Unlock()
	a.reaper.poke()
	if err != nil && err != unix.ESRCH {
		return false
	}
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
		return false
	}
	swept := a.reaper.usage().since(before)
	e.swept = &swept
	return true
}

// sweep kills the keeper's descendants, and those of a keeper that is gone, until none is left.
func (e *exec) sweep() bool { return sweep(maxSweeps, e.processes, e.await) }

// sweep kills what list finds, until that is nothing and gone, asked after a pause, agrees. They are stopped before they
// are killed: a stopped process does not fork, and keeps its place in a full process table, so that a fork bomb comes to
// rest instead of growing back.
func sweep(rounds int, list func() []*process, gone func(pause time.Duration) bool) bool {
	pause := time.Millisecond
	until := time.Now().Add(killTime)
	for range rounds {
		held := make(map[int]*process)
		for range freezeTries {
			fresh := 0
			for _, p := range list() {
				if known := held[p.pid]; known != nil && known.start == p.start {
					p.close()
					continue
				}
				fresh++
				p.signal(unix.SIGSTOP)
				if old := held[p.pid]; old != nil {
					old.close()
				}
				held[p.pid] = p
			}
			if fresh == 0 {
				break
			}
		}
		for _, p := range held {
			p.signal(unix.SIGKILL)
		}
		for _, p := range held { // where others have the processor, dying takes its time: that is no round of its own
			p.ended(until)
			p.close()
		}
		if gone(pause) && len(held) == 0 {
			return true
		}
		pause = min(2*pause, 200*time.Millisecond)
	}
	return false
}
