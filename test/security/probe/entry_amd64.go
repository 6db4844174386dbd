//go:build linux && amd64

package main

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

func int80(nr uint32) int32

// foreign32 enters the kernel through the i386 entry, where every system call has another number. It must not return a
// number.
func foreign32(r *report, _ []string) {
	const getpid32 = 20
	if got := int80(getpid32); got != -int32(unix.ENOSYS) {
		r.breach("i386 getpid answered %d", got)
	}
}

// foreignX32 uses the x32 numbers, which reach the same calls and bypass a filter that only compares numbers. Some filters
// end the thread: each try is therefore in a separate process.
func foreignX32(r *report, _ []string) {
	const x32 = 0x40000000
	for name, nr := range map[string]uintptr{"getpid": unix.SYS_GETPID, "mount": unix.SYS_MOUNT, "bpf": unix.SYS_BPF, "ioctl": 514, "ptrace": 521} {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			_, _, errno = unix.RawSyscall6(x32|nr, 0, 0, 0, 0, 0, 0)
			unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno)&0xff, 0, 0)
		}
		if errno != 0 {
			r.breach("control: clone: %v", errno)
			return
		}
		var status unix.WaitStatus
		_, err := unix.Wait4(int(pid), &status, 0, nil)
		switch {
		case err != nil:
			r.breach("control: wait: %v", err)
		case status.Signaled() && status.Signal() == unix.SIGSYS:
			fmt.Printf("x32 %s: %v\n", name, status.Signal())
		case status.Exited() && status.ExitStatus() == int(unix.ENOSYS):
			fmt.Printf("x32 %s: %v\n", name, unix.ENOSYS)
		default:
			r.breach("x32 %s: status %#x", name, uint32(status))
		}
	}
}
