//go:build linux

package forkexec

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// legacyClone is clone(2), whose argument order depends on the architecture.
//
//go:norace
//go:nosplit
func legacyClone(flags, pidfd uintptr) (uintptr, syscall.Errno) {
	pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, pidfd, 0, 0, 0)
	return pid, e
}
