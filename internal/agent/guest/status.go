//go:build linux

package guest

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// record reads the next record of the keeper's. io.EOF means that no keeper is left.
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

// birthTime is how long a command may take to become its program. Files can keep one waiting: those of a dead server,
// or of a program that has a lease on them; and so can a program that stops it.
const birthTime = time.Minute

// errUnborn is a command that has not become its program within birthTime.
var errUnborn = errors.New("it has not begun within " + birthTime.String())

// firstRecord waits for the keeper's first record, but not for longer than the command may run, and not when the agent is
// closed: what the keeper has begun is then killed, of which it tells, and cut states why.
func (e *exec) firstRecord() (rec forkexec.Record, cut wire.Cause, err error) {
	const look = time.Second // whether the agent is closed; most births take a thousandth
	limit, cause := birthTime, wire.CauseLost
	if t := milliseconds(e.spec.TimeoutMS); t > 0 && t < limit {
		limit, cause = t, wire.CauseTimeout
	}
	for kills := 0; ; {
		left := time.Until(e.began.Add(limit))
		_ = e.status.SetReadDeadline(time.Now().Add(max(time.Millisecond, min(look, left))))
		rec, err = e.record()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			_ = e.status.SetReadDeadline(time.Time{})
			return rec, cut, err
		}
		switch {
		case cut == "" && isClosed(e.a.stop):
			cut = wire.CauseEnded
		case time.Since(e.began) < limit:
			continue
		case cut == "":
			cut = cause
		}
		limit = time.Since(e.began) + look
		for _, p := range e.processes() {
			p.Signal(unix.SIGKILL)
			p.Close()
		}
		if kills++; kills > 2 { // it is the keeper that was stopped
			_ = unix.PidfdSendSignal(e.keeper.PidFD, unix.SIGKILL, nil, 0)
		}
	}
}

// begin waits for the keeper's first record: the number of the first process, which has become the program, or why it
// has not. A keeper that was killed before has left a command that will be found to be lost.
func (e *exec) begin() error {
	rec, cut, err := e.firstRecord()
	e.cut = cut
	var failure error
	switch {
	case cut == wire.CauseLost:
		failure = errUnborn
	case err != nil:
		e.pid = e.keeper.Pid // leads no group: signals find no process
		return nil
	case rec.Kind&forkexec.RecordFailed == 0:
		e.pid, e.settled = int(rec.Pid), true
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

// certain reports whether a lost command's processes have all been found where they were looked for: among the agent's
// children, where they are then; or in the cgroup, if they were born there. A session is something that they leave.
func (e *exec) certain() bool {
	if e.group != nil {
		return e.a.group.HasClone3()
	}
	return e.a.reaper != nil
}

// release frees the resources of a keeper that is dead.
func (e *exec) release() {
	unix.Close(e.keeper.PidFD)
	if e.settled {
		e.program.Free() // else its memory is lost: a process that was not seen to die may have it
	}
}

// watch reads the keeper's records and reports them to the command's life. It ends with the keeper, and reaps it.
func (e *exec) watch() {
	for {
		rec, err := e.record()
		if err != nil {
			break
		}
		if rec.Kind&forkexec.RecordEmpty != 0 {
			e.last = &rec
		}
		if rec.Kind&forkexec.RecordExited != 0 {
			e.first, e.ended = &rec, time.Now()
			close(e.exited)
		}
		if rec.Kind&forkexec.RecordEmpty != 0 {
			close(e.empty) // before the keeper's own end, which no caller has to wait for
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
	close(e.reaped)
}

// reap takes the remains of a keeper that has closed its socket, and is thus dying. Where the process is ours the
// reaper does that, and all there is to do is to wait until it is dead and its children have another parent.
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
