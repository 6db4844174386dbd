//go:build linux

package confine

import (
	"bytes"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel charges no cgroup for file locks, and a process may have any number. Programs need a few.
const (
	maxLocks = 4096 // programs that have as many get no more, but at a look only
	lookEach = 8192 // calls for locks, of which each makes at most two more
)

// ledger bounds the POSIX record locks of a sandbox. It looks at the kernel's list after some calls, not at each one. So there
// are never more than maxLocks + 2*lookEach, and two for each thread that waits in a call.
type ledger struct {
	list   io.ReadSeeker // the kernel's, of our process namespace; nil where there is none
	calls  int           // since the last look
	full   bool          // as of the last look
	next   time.Time
	shared bool
}

// newLedger takes the descriptor of the list.
func newLedger(fd int) *ledger {
	if fd <= 0 {
		return &ledger{}
	}
	unix.CloseOnExec(fd)
	return &ledger{list: os.NewFile(uintptr(fd), "locks")}
}

// filter hands the supervisor each call that makes a lock, and each that makes a process with the file table of another: the kernel's
// list hides locks whose maker has ended, and only such a process keeps them.
func (l *ledger) filter() []unix.SockFilter {
	if l.list == nil {
		return nil
	}
	const flags = unix.CLONE_FILES | unix.CLONE_THREAD
	return []unix.SockFilter{
		load(0), unless(unix.SYS_CLONE, 3),
		load(arguments), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 4, Jf: 5, K: unix.CLONE_FILES},
		unless(unix.SYS_FCNTL, 5),
		load(arguments + 8), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.F_SETLK},
		unless(unix.F_SETLKW, 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
}

// share notes that from now on there may be locks that the list hides: no call is forgotten any longer.
func (l *ledger) share() {
	if !l.shared {
		l.look()
		l.shared = true
	}
}

// admit reports whether one more call for a lock may continue.
func (l *ledger) admit() bool {
	l.calls++
	switch {
	case l.calls <= lookEach && !l.full:
		return true
	case l.calls > lookEach && l.shared || l.full && time.Now().Before(l.next):
		return false
	}
	l.look()
	return !l.full
}

// look reads the list. While there are too many locks, the next look is so much later that all take a tenth of a processor at
// most.
func (l *ledger) look() {
	start := time.Now()
	_, err := l.list.Seek(0, io.SeekStart)
	l.full = err != nil || countLocks(l.list, maxLocks) >= maxLocks
	l.next = time.Now().Add(9 * time.Since(start))
	if !l.shared {
		l.calls = 1
	}
}

// countLocks counts the lines of a list of locks up to most. Those of open files (owner -1) are of the host: a sandbox can make
// none. What cannot be read counts as most.
func countLocks(list io.Reader, most int) (n int) {
	var rest []byte
	buf := make([]byte, 4096) // the kernel gives no more at once
	for left := 512 * most; n < most && left > 0; {
		k, err := list.Read(buf)
		left -= k
		rest = append(rest, buf[:k]...)
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			if rest = after; !bytes.Contains(line, []byte(" -1 ")) {
				n++
			}
		}
		if err == io.EOF {
			return min(n, most)
		}
		if err != nil {
			break
		}
	}
	return most
}
