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
// Nothing else lies between 4 GiB and there: the program is below, or like all other mappings far above.
const (
	heapStart = 1 << 32
	heapEnd   = 1<<46 + 1<<40
	userEnd   = 1<<47 - 1<<12
)

// fork clones this process and carries out the program in the child, on a stack in the arena, and in the child's own
// children, which share what it has. A keeper shares our memory unless it is apart; any other child has the arena and
// little else. Where there is no clone3, which alone resets the signal handlers for us, that one is a clone of the whole,
// and a keeper resets them itself. See [forkWhole] for the preconditions.
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
	} else if m.clone3 { // else others are clones of the whole
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

	runtime.LockOSThread() // whose signals these are
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

// alone excludes everything but the program itself and the arena from children (MADV_DONTFORK): Go's heap, what package
// runtime keeps about it, and all stacks. Their page tables and the copy of those are most of what a fork of a
// busy server costs. It leaves the heap where other things lie among it, like the program, at pc, or with an unlimited
// stack all mappings, and so the arena; and all other mappings where the program is among them.
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
	// Every time, since there are new ones; what has grown since is merely copied. There are gaps, of which the kernel
	// reports by an error when it is done.
	syscall.RawSyscall(unix.SYS_MADVISE, heapStart, end-heapStart, unix.MADV_DONTFORK)
	for _, block := range a.blocks {
		unix.Madvise(block, unix.MADV_DOFORK)
	}
}

// kernelWrites reports whether the kernel writes to this thread's memory, and so to a child's, unless it is known not to:
// a C library asks for it (rseq(2)), which is part of a Go program that uses cgo. The address is nowhere: it is looked at
// only where there is no other.
func kernelWrites() bool {
	const size = 32
	_, _, e := syscall.RawSyscall6(unix.SYS_RSEQ, ^uintptr(size-1), size, 0, 0, 0, 0)
	return e != unix.EFAULT && e != unix.ENOSYS
}

// caught are the signals for which this process has a handler. Go installs its own before anything of ours runs.
var caught = sync.OnceValue(func() (set uint64) {
	for s := uintptr(1); s <= 64; s++ {
		var action [4]uintptr // the handler is the first
		_, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, s, 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
		const dfl, ign = 0, 1
		if e == 0 && action[0] != dfl && action[0] != ign {
			set |= 1 << (s - 1)
		}
	}
	return set
})

// enter is where the child begins: with a stack and the machine, without a g, a heap or any signal. A keeper lets none in:
// until its child executes something, they have the parent's memory, which a handler would act upon.
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

// cloneOnto is clone3 or clone, with up to three arguments and a stack among them, on which the child calls the function at
// entry with m. It returns in the parent only: the child's number or, negative, an error.
//
//go:noescape
func cloneOnto(call, arg0, arg1, arg2, entry uintptr, m *machine) int

// besideEntry is the address of the other way to call that, from a child: with the arguments of cloneOnto in registers.
func besideEntry() uintptr
