//go:build linux

package forkexec

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A keeper is the parent of one command and the subreaper of its orphans: neither a double fork nor setsid escapes it. It
// executes no program. If possible it shares the memory of its parent and so costs only a stack. It reports when the
// command has started, when its first process has ended, and when no process is left, and then exits. Its only descriptor
// is the one for its reports.

// RecordKind states what a record reports: any combination of these.
type RecordKind uint32

// The kinds of record.
const (
	RecordExited  RecordKind = 1 << iota // the command's first process was reaped
	RecordEmpty                          // no process of the command is left; only in the last record
	RecordStarted                        // the command has executed its program, or died before
	RecordFailed                         // a step has failed; in the first record, and all other fields only report the end
	RecordReaped                         // another child was reaped, with its status and pid, and its usage alone
)

// RecordSize is the size of a record on the status descriptor.
const RecordSize = int(unsafe.Sizeof(Record{}))

// Record is a keeper's report on its status descriptor, as raw memory in the machine's own byte order.
type Record struct {
	Kind   RecordKind
	Status uint32 // wait status with RecordExited, error number with RecordFailed
	Pid    uint32 // of the first process with RecordStarted, of the child with RecordReaped
	Step   uint32 // see [Program.Failure]; RecordFailed only
	// Usage of all processes reaped so far together; MaxRSS is that of the largest, in bytes.
	UserMicros   uint64
	SystemMicros uint64
	MaxRSS       uint64
}

// ParseRecord parses a record; false if b is too short.
func ParseRecord(b []byte) (Record, bool) {
	if len(b) < RecordSize {
		return Record{}, false
	}
	return *(*Record)(unsafe.Pointer(unsafe.SliceData(b))), true
}

// StartKeeper starts a program with [Program.SplitKeeper] and returns the keeper, whose records report on the command. Do not
// free, change or restart the program before the keeper has ended. If it did not report [RecordEmpty], the command's processes
// must have ended, too: they may have no copy.
func (p *Program) StartKeeper() (Child, error) {
	m := p.machine(p.ops, 0)
	m.control, m.apart, m.each = uintptr(p.statusFD), p.apart, p.each
	syscall.ForkLock.Lock()
	pid, errno := fork(m, p.arena)
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return Child{}, &Error{Step: "clone", Errno: errno}
	}
	return Child{Pid: int(pid), PidFD: int(m.pidfd)}, nil
}

// Failure returns the error in a record of kind RecordFailed.
func (p *Program) Failure(r Record) *Error {
	return &Error{Step: p.steps[min(int(r.Step), len(p.steps)-1)], Errno: unix.Errno(r.Status)}
}

// keep is the keeper's life. It never returns.
//
//go:norace
//go:nocheckptr
//go:nosplit
func keep(m *machine, main uintptr) {
	// Block every signal that can be blocked: the command's own process group and terminal must not reach the keeper.
	m.mask = ^uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&m.mask)), 0, 8, 0, 0)
	status := m.control
	if status > 0 {
		syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, status-1, 0)
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, status+1, ^uintptr(0)>>32, 0)
	m.record.Kind, m.record.Pid = RecordStarted, uint32(main) // now that it has no descriptor of the parent's
	writeRecord(m)
	m.record = Record{}
	options := uintptr(0)
	for {
		pid, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&m.status)), options, uintptr(unsafe.Pointer(&m.rusage)), 0, 0)
		r := &m.record
		switch {
		case e == unix.EINTR:
			continue
		case e != 0:
			r.Kind |= RecordEmpty
			writeRecord(m)
			exit(0)
		case pid == 0: // the remaining children live
			writeRecord(m)
			r.Kind, r.Status, options = 0, 0, 0
			continue
		}
		r.UserMicros += uint64(m.rusage.Utime.Sec)*1e6 + uint64(m.rusage.Utime.Usec)
		r.SystemMicros += uint64(m.rusage.Stime.Sec)*1e6 + uint64(m.rusage.Stime.Usec)
		if rss := uint64(m.rusage.Maxrss) << 10; rss > r.MaxRSS {
			r.MaxRSS = rss
		}
		if m.each {
			r.Status, r.Pid = m.status, uint32(pid)
			if r.Kind = RecordReaped; pid == main {
				r.Kind = RecordExited
			}
			writeRecord(m)
			*r = Record{}
			continue
		}
		if pid == main {
			// It is usually the only child: then one record reports everything.
			r.Kind, r.Status, options = RecordExited, m.status, unix.WNOHANG
		}
	}
}

// writeRecord writes the record.
//
//go:norace
//go:nocheckptr
//go:nosplit
func writeRecord(m *machine) {
	syscall.RawSyscall(unix.SYS_WRITE, m.control, uintptr(unsafe.Pointer(&m.record)), uintptr(RecordSize))
}
