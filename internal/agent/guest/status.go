//go:build linux

package guest

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// receive reads one message from a status socket: who sent it, and what. io.EOF says that no keeper is left.
func receive(status *os.File, b []byte) (pid, n int, err error) {
	raw, err := status.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	wait := raw.Read(func(fd uintptr) bool {
		pid, n, err = receiveNow(fd, b)
		return err != unix.EAGAIN
	})
	if wait != nil {
		return 0, 0, wait
	}
	return pid, n, err
}

// receiveNow is receive without waiting: EAGAIN if there is no message.
func receiveNow(fd uintptr, b []byte) (pid, n int, err error) {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	oobn := 0
	for {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return 0, 0, err
	case n == 0:
		return 0, 0, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return 0, 0, err
	}
	for i := range messages {
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			pid = int(cred.Pid)
		}
	}
	return pid, n, nil
}

// receivePid reads the first message: the first process's own, before it became the program.
func receivePid(status *os.File) (int, error) {
	var b [1]byte
	pid, _, err := receive(status, b[:])
	return pid, err
}

// watch takes the keeper's records and tells the command's life of them. It ends with the keeper, and reaps it.
func (e *exec) watch() {
	buf := make([]byte, forkexec.RecordSize)
	for {
		_, n, err := receive(e.status, buf)
		if err != nil {
			break
		}
		rec, ok := forkexec.ParseRecord(buf[:n])
		if !ok {
			continue
		}
		switch rec.Kind {
		case forkexec.RecordExited:
			if e.first == nil {
				e.first, e.ended = &rec, time.Now()
				close(e.exited)
			}
		case forkexec.RecordEmpty:
			if e.last == nil && e.first != nil {
				e.last = &rec
				close(e.empty) // before the keeper's own end, which nobody has to wait for
			}
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
