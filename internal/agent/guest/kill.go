//go:build linux

package guest

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// Limits for killing a command. A sweep that still finds new processes after all these rounds does not converge.
const (
	maxSweeps = 64
	// headTime is how long a killed cgroup may take to become empty before its processes are killed one by one.
	headTime = 100 * time.Millisecond
	// settleTime is how long a keeper may take to report that its command has no process left, which it normally does immediately.
	settleTime = 2 * time.Millisecond
	// escapeTime is how long killed processes may take to die before the next search for escaped ones.
	escapeTime = 5 * time.Millisecond
)

// term sends every process TERM, and waits for up to grace. A further request to end may shorten it.
func (e *exec) term(grace time.Duration) {
	if grace <= 0 {
		return
	}
	for _, p := range process.Terminate(e.processes) {
		p.Close()
	}
	until := time.Now().Add(grace)
	for {
		select {
		case <-e.empty:
			return
		case <-time.After(time.Until(until)):
			return
		case <-e.a.stop:
			return
		case want := <-e.ends:
			if sooner := time.Now().Add(want.grace); sooner.Before(until) {
				until = sooner
			}
		}
	}
}

// kill kills every process of the command and waits until none is left; false if it fails.
func (e *exec) kill() bool {
	resume(e.keeper)
	if e.group != nil {
		// Linux before 5.14 cannot. The kernel kills a process through its first thread, and misses a process that has lost it.
		if (e.group.Kill() != nil || e.group.WaitEmpty(headTime) != nil) && !e.sweep() {
			return false
		}
		return e.group.WaitEmpty(process.KillTime) == nil && e.await(process.KillTime)
	}
	if e.killAlone() {
		return e.await(process.KillTime)
	}
	return e.sweep()
}

// resume resumes a keeper, which programs of its own user can stop.
func resume(keeper forkexec.Child) { _ = unix.PidfdSendSignal(keeper.PidFD, unix.SIGCONT, nil, 0) }

// await waits until the keeper has reported that no process is left, or has ended itself.
func (e *exec) await(d time.Duration) bool {
	select {
	case <-e.empty:
		return true
	case <-time.After(d):
		return false
	}
}

// killAlone kills everything in our PID namespace, if that is only this command. On Linux no fork can escape: the kernel holds a
// lock meanwhile. gVisor holds none. So processes that a fork bomb starts meanwhile are first stopped, so that they cannot fork, and
// then killed.
func (e *exec) killAlone() bool {
	a := e.a
	if a.reaper == nil || os.Getpid() != 1 {
		return false
	}
	before := a.reaper.Usage()
	none, ok := e.killOthers(unix.SIGKILL)
	pause := time.After(time.Millisecond)
	for until := time.Now().Add(process.KillTime); ok && time.Now().Before(until); {
		select {
		case <-none:
			swept := a.reaper.Usage().Since(before)
			e.swept = &swept
			return true
		case <-pause:
			_, ok = e.killOthers(unix.SIGSTOP, unix.SIGSTOP, unix.SIGSTOP, unix.SIGKILL)
			pause = time.After(escapeTime)
		}
	}
	return false
}

// killOthers sends signals to every process but ours, unless another command has processes. The channel is closed once we have no
// children.
func (e *exec) killOthers(signals ...unix.Signal) (none <-chan struct{}, ok bool) {
	a := e.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.launching) > 0 || len(a.alive) != 1 {
		return nil, false
	}
	none = a.reaper.Childless()
	for _, s := range signals {
		if err := unix.Kill(-1, s); err != nil && err != unix.ESRCH {
			return none, false
		}
	}
	a.reaper.Wake()
	return none, true
}

// sweep kills the keeper's descendants, or strays without a keeper, until none is left.
func (e *exec) sweep() bool { return process.Sweep(maxSweeps, e.processes, e.await) }
