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
)

// fork clones this process without its heap and carries out the program in the child, on a stack in the arena. Where
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
	withoutHeap(a, entry)

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

// withoutHeap makes children be born without Go's heap: neither its page tables nor their copy, which is most of what
// a fork of a busy server costs. It leaves the whole where other things lie among it, like the program itself, at pc, or
// with an unlimited stack all mappings, and so the arena.
func withoutHeap(a *arena, pc uintptr) {
	for _, at := range []uintptr{pc, uintptr(unsafe.Pointer(a.stack()))} {
		if at >= heapStart && at < heapEnd {
			return
		}
	}
	// Every time, since the heap grows; what it has grown since is merely copied. There are gaps in it, of which the
	// kernel tells by an error when it is done.
	syscall.RawSyscall(unix.SYS_MADVISE, heapStart, heapEnd-heapStart, unix.MADV_DONTFORK)
}

// enter is where the child begins: with a stack and the machine, without a g, a heap or any signal.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func enter(m *machine) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&m.signals)), 0, 8, 0, 0)
	run(m)
}

// cloneOnto is clone3 with a stack, on which the child calls the function at entry with m. It returns in the parent
// only: the child's number or, negative, an error.
//
//go:noescape
func cloneOnto(args *cloneArgs, size, entry uintptr, m *machine) int
