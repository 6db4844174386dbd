//go:build linux

package forkexec

import (
	"runtime"
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

// fork clones this process without most of its memory and carries out the program in the child, on a stack in the arena,
// and in the child's own children, which share what it has. Where
// there is no clone3, which alone resets the signal handlers for us, it clones the whole. See [forkWhole] for the
// preconditions.
//
//go:noinline
//go:norace
//go:nocheckptr
func fork(m *machine, a *arena, clone3 bool) (pid uintptr, errno syscall.Errno) {
	if !clone3 {
		return forkWhole(m, false)
	}
	m.clone.flags |= unix.CLONE_CLEAR_SIGHAND
	m.clone.stack, m.clone.stackSize = uint64(uintptr(unsafe.Pointer(a.stack()))), stackSize
	f := enter
	entry := **(**uintptr)(unsafe.Pointer(&f))
	alone(a, entry)
	further := run
	m.entry, m.beside = **(**uintptr)(unsafe.Pointer(&further)), uintptr(unsafe.Pointer(&m.cloneBeside))
	m.cloneBeside = besideEntry()

	runtime.LockOSThread() // whose signals these are
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, 0, uintptr(unsafe.Pointer(&m.signals)), 8, 0, 0)
	beforeFork()
	r := cloneOnto(&m.clone, unsafe.Sizeof(m.clone), entry, m)
	afterFork()
	runtime.UnlockOSThread()
	if r > -4096 && r < 0 {
		return 0, syscall.Errno(-r)
	}
	return uintptr(r), 0
}

// alone makes children be born with the program itself and the arena, and nothing else: neither Go's heap, nor what
// package runtime keeps about it, nor any stack. Their page tables and the copy of those are most of what a fork of a
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
	// tells by an error when it is done.
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

// enter is where the child begins: with a stack and the machine, without a g, a heap or any signal.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func enter(m *machine) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&m.signals)), 0, 8, 0, 0)
	begin(m)
}

// cloneOnto is clone3 with a stack, on which the child calls the function at entry with m. It returns in the parent
// only: the child's number or, negative, an error.
//
//go:noescape
func cloneOnto(args *cloneArgs, size, entry uintptr, m *machine) int

// besideEntry is the address of the other way to call that, from a child: with the arguments of cloneOnto in registers.
func besideEntry() uintptr
