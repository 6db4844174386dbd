//go:build linux

package guest

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// record reads the keeper's next record. io.EOF means that the keeper has ended.
func (e *exec) record() (forkexec.Record, error) {
	buf := make([]byte, forkexec.RecordSize)
	n, err := e.status.Read(buf)
	if err != nil {
		return forkexec.Record{}, err
	}
	rec, ok := forkexec.ParseRecord(buf[:n])
	if !ok {
		return rec, io.ErrUnexpectedEOF
	}
	return rec, nil
}

// launchTime is how long a command may take to call execve. A file on a dead server, a program with a lease on its file, and a
// program that stops the process can each delay it.
const launchTime = time.Minute

// errLaunchTimeout means that a command has not called execve within launchTime.
var errLaunchTimeout = errors.New("it has not begun within " + launchTime.String())

// firstRecord waits for the keeper's first record, but no longer than the command's timeout, and not after the agent is closed. It
// then ends the child, which the keeper reports; cut is the reason.
func (e *exec) firstRecord() (rec forkexec.Record, cut wire.Cause, err error) {
	const look = time.Second // interval to check whether the agent is closed; most starts take a thousandth
	limit, cause, grace := launchTime, wire.CauseLost, look
	if t := milliseconds(e.spec.TimeoutMS); t > 0 && t < limit {
		limit, cause, grace = t, wire.CauseTimeout, max(look, milliseconds(e.spec.GraceMS))
	}
	for kills := 0; ; {
		left := time.Until(e.began.Add(limit))
		_ = e.status.SetReadDeadline(time.Now().Add(max(time.Millisecond, min(look, left))))
		rec, err = e.record()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			_ = e.status.SetReadDeadline(time.Time{})
			return rec, cut, err
		}
		switch stop := isClosed(e.a.stop); {
		case !stop && time.Since(e.began) < limit:
			continue
		case cut != "":
			limit = time.Since(e.began) + look
		case stop:
			cut = wire.CauseEnded
		default:
			cut, limit = cause, time.Since(e.began)+grace
		}
		for _, p := range e.processes() {
			p.Signal([]unix.Signal{unix.SIGTERM, unix.SIGKILL}[min(kills, 1)]) // TERM first, as after its execve: the status is the same
			p.Close()
		}
		if kills++; kills > 2 { // the keeper itself is stopped
			_ = unix.PidfdSendSignal(e.keeper.PidFD, unix.SIGKILL, nil, 0)
		}
	}
}

// begin waits for the keeper's first record: the pid of the first process after its execve, or the error. A keeper that was killed
// before leaves a command whose status is lost.
func (e *exec) begin() error {
	rec, cut, err := e.firstRecord()
	e.cut = cut
	var failure error
	switch {
	case cut == wire.CauseLost:
		failure = errLaunchTimeout
	case err != nil:
		e.pid = e.keeper.Pid // leads no group: signals find no process
		return nil
	case rec.Kind&forkexec.RecordFailed == 0:
		e.pid, e.settled = int(rec.Pid), true
		if cut != "" {
			process.AwaitDeath(e.pid) // until then it has copies of our descriptors: see [Agent.awaitLaunches]
		}
		return nil
	default:
		failure = e.program.Failure(rec)
	}
	for err == nil && rec.Kind&forkexec.RecordEmpty == 0 {
		rec, err = e.record()
	}
	e.settled = err == nil
	e.a.reap(e.keeper)
	e.release()
	return failure
}

// certain reports whether all processes of a lost command can be found: among the agent's children, if it adopts orphans, or in
// the cgroup, if they started there. A process can leave a session.
func (e *exec) certain() bool {
	if e.group != nil {
		return e.a.group.HasClone3()
	}
	return e.a.reaper != nil
}

// release frees the resources of a dead keeper.
func (e *exec) release() {
	unix.Close(e.keeper.PidFD)
	if e.settled {
		e.program.Free() // else its memory leaks: a process that may be alive may use it
	}
}

// watch reads the keeper's records and reports them to the command's life. It ends with the keeper, and reaps it.
func (e *exec) watch() {
	for {
		rec, err := e.record()
		if err != nil {
			break
		}
		if rec.Kind&forkexec.RecordReaped != 0 {
			e.parked.reaped(rec)
		}
		if rec.Kind&forkexec.RecordEmpty != 0 {
			e.last = &rec
		}
		if rec.Kind&forkexec.RecordExited != 0 {
			e.first, e.ended = &rec, time.Now()
			close(e.exited)
		}
		if rec.Kind&forkexec.RecordEmpty != 0 {
			close(e.empty) // before the keeper's own end, which callers need not wait for
		}
	}
	e.status.Close()
	e.a.reap(e.keeper)
	if e.first == nil {
		e.ended = time.Now()
		close(e.exited)
	}
	if e.last == nil {
		close(e.empty)
	}
	if e.parked != nil {
		e.parked.orphaned()
	}
	close(e.reaped)
}

// reap reaps a keeper that has closed its socket and is exiting. If the agent is an init process, the reaper does that, and reap
// only waits until the keeper is dead and its children are adopted.
func (a *Agent) reap(keeper forkexec.Child) {
	for {
		var err error
		if a.reaper != nil {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(keeper.PidFD), Events: unix.POLLIN}}, -1)
		} else {
			err = unix.Waitid(unix.P_PIDFD, keeper.PidFD, nil, unix.WEXITED, nil)
		}
		if err != unix.EINTR {
			return
		}
	}
}
