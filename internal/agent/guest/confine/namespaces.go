//go:build linux

package confine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// NamespacesDenied reports whether the kernel refuses to create and enter namespaces. On another kernel these arguments are invalid, so the
// calls never create anything.
func NamespacesDenied() bool {
	args := [8]uint64{unix.CLONE_NEWUSER | unix.CLONE_THREAD} // CLONE_ARGS_SIZE_VER0 of clone3(2)
	_, _, clone := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	_, _, enter := unix.RawSyscall(unix.SYS_SETNS, ^uintptr(0), 0, 0)
	return clone == unix.EPERM && enter == unix.EPERM
}
