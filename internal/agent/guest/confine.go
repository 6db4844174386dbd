//go:build linux

package guest

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confine bounds what programs can have of the kernel that it charges nobody for. It fails where the kernel is not as the
// configuration says.
func (c Config) Confine() error {
	if err := c.fence(); err != nil || c.Fenced {
		return err
	}
	if err := bound(newLedger(c.LocksFD)); err != nil {
		return fmt.Errorf("bound netlink sockets and locks: %w", err)
	}
	return nil
}

// fence fails where the kernel is to be one that refuses, and is not.
func (c Config) fence() error {
	if c.Fenced && !fenced() {
		return errors.New("this kernel refuses nothing of its own accord: belljar-runsc is older than belljar")
	}
	return nil
}

// fenced reports whether the kernel refuses to make namespaces and to enter one. Elsewhere these arguments are invalid:
// nothing is ever made.
func fenced() bool {
	args := [8]uint64{unix.CLONE_NEWUSER | unix.CLONE_THREAD} // CLONE_ARGS_SIZE_VER0 of clone3(2)
	_, _, clone := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	_, _, enter := unix.RawSyscall(unix.SYS_SETNS, ^uintptr(0), 0, 0)
	return clone == unix.EPERM && enter == unix.EPERM
}

// instructions are what a filter's bytes are of.
func instructions(filter []byte) ([]unix.SockFilter, error) {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	if len(filter)%size != 0 || len(filter)/size > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("seccomp filter of %d bytes is no array of instructions", len(filter))
	}
	code := make([]unix.SockFilter, len(filter)/size)
	for i := range code {
		code[i] = *(*unix.SockFilter)(unsafe.Pointer(&filter[i*size]))
	}
	return code, nil
}
