//go:build linux && amd64

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func int80(nr uint32) int32

// foreign32 enters the kernel by the i386 door, where every system call has another number. It must not come back.
func foreign32(r *report, _ []string) {
	const getpid32 = 20
	r.breach("i386 getpid answered %d", int80(getpid32))
}

// foreignX32 uses the x32 numbers, which reach the same calls around a filter that compares numbers only.
func foreignX32(r *report, _ []string) {
	const x32 = 0x40000000
	for name, nr := range map[string]uintptr{"getpid": unix.SYS_GETPID, "mount": unix.SYS_MOUNT, "bpf": unix.SYS_BPF, "ioctl": 514, "ptrace": 521} {
		r.refused(fmt.Sprintf("x32 %s", name), call(x32|nr), unix.ENOSYS)
	}
}
