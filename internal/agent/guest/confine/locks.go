//go:build linux

package confine

import (
	"bytes"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel charges no cgroup for file locks, and a process can have any number. Programs need few.
const (
	maxLocks = 4096 // the limit, as of the last count
	lookEach = 8192 // calls for locks between counts; each makes at most two more locks
)

// ledger limits the POSIX record locks of a sandbox. It counts the kernel's list after a number of calls, not after each. So there
// are at most maxLocks + 2*lookEach locks, and two for each thread that waits in a call.
type ledger struct {
	list   io.ReadSeeker // the kernel's, of our PID namespace; nil if there is none
	calls  int           // since the last count
	full   bool          // as of the last count
	next   time.Time
	shared bool
}

// newLedger takes over the descriptor of the list.
func newLedger(fd int) *ledger {
	if fd <= 0 {
		return &ledger{}
	}
	unix.CloseOnExec(fd)
	return &ledger{list: os.NewFile(uintptr(fd), "locks")}
}

// filter notifies the supervisor of each call that creates a lock, and of each that creates a process with a shared file table:
// the kernel's list hides locks whose creator has ended, and only such a process can keep them.
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

// share records that the list may hide locks from now on, so every call counts.
func (l *ledger) share() {
	if !l.shared {
		l.look()
		l.shared = true
	}
}

// admit reports whether another call for a lock may continue.
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

// look counts the locks in the list. While there are too many, it delays the next count so that counting takes at most a tenth of
// a processor.
func (l *ledger) look() {
	start := time.Now()
	_, err := l.list.Seek(0, io.SeekStart)
	l.full = err != nil || countLocks(l.list, maxLocks) >= maxLocks
	l.next = time.Now().Add(9 * time.Since(start))
	if !l.shared {
		l.calls = 1
	}
}

// countLocks counts the lines of a list of locks, at most most. It skips open-file locks (owner -1), which are the host's: a
// sandbox cannot create them. An unreadable list counts as most.
func countLocks(list io.Reader, most int) (n int) {
	var rest []byte
	buf := make([]byte, 4096) // the kernel returns no more at once
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
