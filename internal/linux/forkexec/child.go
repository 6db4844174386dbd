//go:build linux

package forkexec

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runtime's hooks for a fork, which package syscall itself uses.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// report is the message of a failed child to its parent over the control socket, as raw memory.
type report struct {
	step  uint32
	errno uint32
}

const reportSize = 8

// machine is everything that the child needs, prepared in the arena before the fork.
type machine struct {
	ops     *op
	count   int
	close   *[2]uintptr // ranges of descriptors to close first
	closes  int
	control uintptr // socket to the parent, or where a keeper's records go
	report  report
	slots   [maxSlots]uintptr
	answer  [4]byte
	status  uint32
	rusage  unix.Rusage
	record  Record
	mask    uint64
	pipe    [2]int32
	clone   cloneArgs
	pidfd   int32  // of the child, in the parent
	signals uint64 // the mask that the executed program gets
	caught  uint64 // signals with a handler of the parent's, to be reset
	none    [4]uint64
	next    int     // index of the first operation
	end     int     // index after the part of a further child, if this is one; else -1
	keeps   bool    // a keeper is required: control gets its records
	kept    bool    // this is the child of one
	apart   bool    // the keeper shares no memory with the parent
	each    bool    // it reports each child that it reaps
	clone3  bool    // clone3 is available
	beside  uintptr // address of cloneBeside, in the form of a Go func value; 0 if a further child is a fork
	entry   uintptr // of run, the entry of a child that shares our memory

	cloneBeside uintptr // address of an assembly function, see fork_amd64.go
}

// further is the state of a further child, in the arena, if it shares the memory of the first.
type further struct {
	clone cloneArgs
	m     machine
}

// forkWhole clones this process with all its memory and executes the program in the child, on the goroutine's stack. It
// returns in the parent only.
//
// Preconditions: syscall.ForkLock is held for writing; everything that m and its operations point to is in the arena.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkWhole(m *machine) (pid uintptr, errno syscall.Errno) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, 0, uintptr(unsafe.Pointer(&m.signals)), 8, 0, 0)
	beforeFork()
	if m.clone3 {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&m.clone)), unsafe.Sizeof(m.clone), 0, 0, 0, 0)
	} else {
		pid, errno = legacyClone(uintptr(m.clone.flags)|uintptr(m.clone.exitSignal), uintptr(m.clone.pidfd))
	}
	if errno != 0 || pid != 0 {
		afterFork()
		return pid, errno
	}
	afterForkInChild()
	begin(m)
	panic("unreachable")
}

// begin closes the descriptors in close and executes the operations. It never returns.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func begin(m *machine) {
	for i := 0; i < m.closes; i++ {
		r := (*[2]uintptr)(unsafe.Add(unsafe.Pointer(m.close), uintptr(i)*unsafe.Sizeof([2]uintptr{})))
		if _, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, r[0], r[1], 0); e != 0 {
			fail(m, 0, e)
		}
	}
	run(m)
}

// run executes the operations from next on. It never returns.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func run(m *machine) {
	for i := m.next; i < m.count; i++ {
		if i == m.end {
			exit(0)
		}
		o := (*op)(unsafe.Add(unsafe.Pointer(m.ops), uintptr(i)*unsafe.Sizeof(op{})))
		switch o.kind {
		case opCall:
			if e := call(m, o); e != 0 {
				if e != o.tolerated[0] && e != o.tolerated[1] {
					fail(m, o.step, e)
				}
				i += int(o.skip)
			}
		case opPipe:
			_, _, e := syscall.RawSyscall(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&m.pipe)), unix.O_CLOEXEC, 0)
			if e != 0 {
				fail(m, o.step, e)
			}
			m.slots[o.out&(maxSlots-1)] = uintptr(m.pipe[0])
			m.slots[(o.out+1)&(maxSlots-1)] = uintptr(m.pipe[1])
		case opSync:
			for {
				n, _, e := syscall.RawSyscall(unix.SYS_READ, m.control, uintptr(unsafe.Pointer(&m.answer)), 1)
				if e == unix.EINTR {
					continue
				}
				if e != 0 || n != 1 {
					exit(127) // the parent has ended or cancelled
				}
				break
			}
		case opSpawn:
			pid, e := spawn(m, o, i+1, i+1+int(o.n))
			if e != 0 {
				fail(m, o.step, e)
			}
			if pid == 0 {
				m.end = i + 1 + int(o.n)
				continue
			}
			m.slots[o.out&(maxSlots-1)] = pid
			i += int(o.n)
		case opFork:
			pid, e := legacyClone(uintptr(unix.SIGCHLD), 0)
			if e != 0 {
				fail(m, o.step, e)
			}
			if pid == 0 {
				m.end = i + 1 + int(o.n)
				continue
			}
			for {
				_, _, e = syscall.RawSyscall6(unix.SYS_WAIT4, pid, uintptr(unsafe.Pointer(&m.status)), 0, 0, 0, 0)
				if e != unix.EINTR {
					break
				}
			}
			if e != 0 {
				fail(m, o.step, e)
			}
			if m.status != 0 {
				exit(127) // the forked child has reported
			}
			i += int(o.n)
		case opKeep:
			pid, e := spawn(m, o, i+1, m.end)
			if e != 0 {
				fail(m, o.step, e)
			}
			if pid != 0 {
				keep(m, pid)
			}
			m.kept = true
		}
	}
	if m.end >= 0 {
		exit(0)
	}
	exit(126) // a program without exec
}

// spawn starts a further child, with the operations from next to end. If possible the child shares our memory and runs
// concurrently, with its own stack and machine, so that no memory is copied or torn down, and no pages fault. Otherwise it
// is a fork, in which spawn returns 0.
//
//go:norace
//go:nocheckptr
//go:nosplit
func spawn(m *machine, o *op, next, end int) (uintptr, syscall.Errno) {
	f := o.child
	if m.beside == 0 {
		if f.clone.cgroup == 0 {
			return legacyClone(uintptr(f.clone.flags|f.clone.exitSignal), 0)
		}
		f.clone.stack, f.clone.stackSize = 0, 0
		pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&f.clone)), unsafe.Sizeof(f.clone), 0, 0, 0, 0)
		return pid, e
	}
	if f.clone.cgroup != 0 && !m.clone3 {
		return 0, unix.ENOSYS
	}
	f.clone.flags |= unix.CLONE_VM
	// As words: a write barrier would need a goroutine.
	const words = unsafe.Sizeof(machine{}) / unsafe.Sizeof(uintptr(0))
	*(*[words]uintptr)(unsafe.Pointer(&f.m)) = *(*[words]uintptr)(unsafe.Pointer(m))
	f.m.next, f.m.end, f.m.kept = next, end, m.keeps
	// Called by its address: after an ordinary call of an assembly function, Go loads the goroutine from thread memory
	// that the child does not have.
	var clone func(call, arg0, arg1, arg2, entry uintptr, m *machine) int
	*(*uintptr)(unsafe.Pointer(&clone)) = m.beside
	var r int
	if m.clone3 {
		r = clone(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&f.clone)), unsafe.Sizeof(f.clone), 0, m.entry, &f.m)
	} else {
		r = clone(unix.SYS_CLONE, uintptr(f.clone.flags|f.clone.exitSignal), uintptr(f.clone.stack+f.clone.stackSize), 0, m.entry, &f.m)
	}
	if r < 0 {
		return 0, syscall.Errno(-r)
	}
	return uintptr(r), 0
}

//go:norace
//go:nocheckptr
//go:nosplit
func call(m *machine, o *op) syscall.Errno {
	var a [6]uintptr
	for i := 0; i < 6; i++ {
		a[i] = o.args[i]
		if o.fromSlot&(1<<uint(i)) != 0 {
			a[i] = m.slots[a[i]&(maxSlots-1)]
		}
	}
	r, _, e := syscall.RawSyscall6(o.nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if e == 0 && o.unwanted != 0 && r != o.want {
		return o.unwanted
	}
	if e == 0 && o.out >= 0 {
		m.slots[o.out&(maxSlots-1)] = r
	}
	if e == 0 && o.store != nil {
		*o.store = int32(r)
	}
	return e
}

//go:norace
//go:nocheckptr
//go:nosplit
func fail(m *machine, step uint16, e syscall.Errno) {
	if m.keeps {
		m.record.Kind, m.record.Status, m.record.Step = RecordFailed, uint32(e), uint32(step)
		if !m.kept {
			m.record.Kind |= RecordEmpty
		}
		writeRecord(m)
		exit(127)
	}
	m.report = report{step: uint32(step), errno: uint32(e)}
	syscall.RawSyscall(unix.SYS_WRITE, m.control, uintptr(unsafe.Pointer(&m.report)), reportSize)
	exit(127)
}

//go:norace
//go:nosplit
func exit(status uintptr) {
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
	}
}

// cloneArgs is struct clone_args of clone3(2), up to the cgroup field (Linux 5.7).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}
