//go:build linux

package forkexec

import (
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Go's heap begins at a random address below 1<<46, or at 0xc0<<32, and grows upwards (malloc.go of package runtime).
// Between 4 GiB and there is no other mapping: the program is below, or far above like all others.
const (
	heapStart = 1 << 32
	heapEnd   = 1<<46 + 1<<40
	userEnd   = 1<<47 - 1<<12
)

// fork clones this process and executes the program in the child, on a stack in the arena, and in the child's own children,
// which share its memory. A keeper shares our memory unless it is apart; any other child has little more than the arena.
// Only clone3 resets the signal handlers. Without it any other child is a full clone, and a keeper resets the handlers
// itself. See [forkWhole] for the preconditions.
//
//go:noinline
//go:norace
//go:nocheckptr
func fork(m *machine, a *arena) (pid uintptr, errno syscall.Errno) {
	if !m.clone3 && !m.keeps {
		return forkWhole(m)
	}
	m.clone.stack, m.clone.stackSize = uint64(uintptr(unsafe.Pointer(a.stack()))), stackSize
	f := enter
	entry := **(**uintptr)(unsafe.Pointer(&f))
	if m.keeps && !m.apart {
		m.clone.flags |= unix.CLONE_VM
	} else if m.clone3 { // otherwise other children are full clones
		alone(a, entry)
	}
	further := run
	m.entry, m.beside = **(**uintptr)(unsafe.Pointer(&further)), uintptr(unsafe.Pointer(&m.cloneBeside))
	m.cloneBeside = besideEntry()
	call, args := uintptr(unix.SYS_CLONE3), [3]uintptr{uintptr(unsafe.Pointer(&m.clone)), unsafe.Sizeof(m.clone)}
	if m.clone3 {
		m.clone.flags |= unix.CLONE_CLEAR_SIGHAND
	} else {
		m.caught = caught()
		call = unix.SYS_CLONE
		args = [3]uintptr{uintptr(m.clone.flags | m.clone.exitSignal), uintptr(m.clone.stack + m.clone.stackSize), uintptr(m.clone.pidfd)}
	}

	runtime.LockOSThread() // so that the saved signal mask is this thread's
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, 0, uintptr(unsafe.Pointer(&m.signals)), 8, 0, 0)
	beforeFork()
	r := cloneOnto(call, args[0], args[1], args[2], entry, m)
	afterFork()
	runtime.UnlockOSThread()
	if r > -4096 && r < 0 {
		return 0, syscall.Errno(-r)
	}
	return uintptr(r), 0
}

// alone excludes everything but the program itself and the arena from children (MADV_DONTFORK): Go's heap, package
// runtime's data about it, and all stacks. Copying their page tables is most of the cost of a fork in a busy server. alone
// does nothing if the program (at pc) or the arena is within the heap's range, as all mappings are with an unlimited stack.
// It excludes only the heap if the program is among the other mappings.
func alone(a *arena, pc uintptr) {
	for _, at := range []uintptr{pc, uintptr(unsafe.Pointer(a.stack()))} {
		if at >= heapStart && at < heapEnd {
			return
		}
	}
	end := uintptr(userEnd)
	if pc >= heapEnd || kernelWrites() {
		end = heapEnd
	}
	// Repeat this for every fork, since there are new mappings; those that have grown since are copied. The range has gaps,
	// which the kernel reports as an error after it is done.
	syscall.RawSyscall(unix.SYS_MADVISE, heapStart, end-heapStart, unix.MADV_DONTFORK)
	for _, block := range a.blocks {
		unix.Madvise(block, unix.MADV_DOFORK)
	}
}

// kernelWrites reports whether the kernel may write to this thread's memory, and so to a child's. A C library, which is
// part of a Go program with cgo, asks for that by rseq(2). The address here is invalid: the kernel checks it only if none
// is registered.
func kernelWrites() bool {
	const size = 32
	_, _, e := syscall.RawSyscall6(unix.SYS_RSEQ, ^uintptr(size-1), size, 0, 0, 0, 0)
	return e != unix.EFAULT && e != unix.ENOSYS
}

// caught returns the signals for which this process has a handler. Go installs its own before any of our code runs.
var caught = sync.OnceValue(func() (set uint64) {
	for s := uintptr(1); s <= 64; s++ {
		var action [4]uintptr // the handler is the first word
		_, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, s, 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
		const dfl, ign = 0, 1
		if e == 0 && action[0] != dfl && action[0] != ign {
			set |= 1 << (s - 1)
		}
	}
	return set
})

// enter is the child's entry: it has a stack and the machine, but no g, no heap, and all signals are blocked. A keeper
// never unblocks them: until its child's execve, both share the parent's memory, which a handler would change.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func enter(m *machine) {
	if !m.keeps {
		syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&m.signals)), 0, 8, 0, 0)
	}
	for s := uintptr(1); m.caught>>(s-1) != 0; s++ {
		if m.caught>>(s-1)&1 != 0 {
			syscall.RawSyscall6(unix.SYS_RT_SIGACTION, s, uintptr(unsafe.Pointer(&m.none)), 0, 8, 0, 0)
		}
	}
	begin(m)
}

// cloneOnto calls clone3 or clone with up to three arguments. The arguments contain a stack, on which the child calls the
// function at entry with m. It returns in the parent only: the child's pid or a negative error.
//
//go:noescape
func cloneOnto(call, arg0, arg1, arg2, entry uintptr, m *machine) int

// besideEntry returns the address of a second entry to cloneOnto, for calls from a child: its arguments are in registers.
func besideEntry() uintptr
