//go:build linux

package forkexec

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A keeper is the parent of one command and, as a subreaper, the foster parent of everything that the command leaves
// behind: a double fork or setsid cannot get away from it. It is a fork without an exec, so it costs a page table and
// no start-up. It reports when the command's first process has ended, and when nothing is left, and then exits. It
// holds no descriptor but the one it reports to.

// RecordKind says what a keeper reports.
type RecordKind uint32

// The kinds of record.
const (
	RecordExited RecordKind = 1 // the command's first process was reaped
	RecordEmpty  RecordKind = 2 // no process of the command is left; the last record
)

// RecordSize is the size of a record on the status descriptor.
const RecordSize = int(unsafe.Sizeof(Record{}))

// Record is what a keeper writes to its status descriptor, as raw memory in the machine's own byte order.
type Record struct {
	Kind   RecordKind
	Status uint32 // wait status, RecordExited only
	// What all processes reaped so far have used together; MaxRSS is that of the largest, in bytes.
	UserMicros   uint64
	SystemMicros uint64
	MaxRSS       uint64
}

// ParseRecord reads a record; false if b is too short.
func ParseRecord(b []byte) (Record, bool) {
	if len(b) < RecordSize {
		return Record{}, false
	}
	return *(*Record)(unsafe.Pointer(unsafe.SliceData(b))), true
}

// keep is the keeper's life. It never returns.
//
//go:norace
//go:nocheckptr
//go:nosplit
func keep(m *machine, main, status uintptr) {
	// Every signal that can be blocked is: the command's own process group and terminal must not reach the keeper.
	m.mask = ^uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&m.mask)), 0, 8, 0, 0)
	if status > 0 {
		syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, status-1, 0)
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, status+1, ^uintptr(0)>>32, 0)
	for {
		pid, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&m.status)), 0, uintptr(unsafe.Pointer(&m.rusage)), 0, 0)
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			m.record.Kind, m.record.Status = RecordEmpty, 0
			syscall.RawSyscall(unix.SYS_WRITE, status, uintptr(unsafe.Pointer(&m.record)), uintptr(RecordSize))
			exit(0)
		}
		r := &m.record
		r.UserMicros += uint64(m.rusage.Utime.Sec)*1e6 + uint64(m.rusage.Utime.Usec)
		r.SystemMicros += uint64(m.rusage.Stime.Sec)*1e6 + uint64(m.rusage.Stime.Usec)
		if rss := uint64(m.rusage.Maxrss) << 10; rss > r.MaxRSS {
			r.MaxRSS = rss
		}
		if pid == main {
			r.Kind, r.Status = RecordExited, m.status
			syscall.RawSyscall(unix.SYS_WRITE, status, uintptr(unsafe.Pointer(&m.record)), uintptr(RecordSize))
		}
	}
}
