package main

import (
	"fmt"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	syscalls "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
)

// namespaces are the flags of clone3(2) that make namespaces. gVisor does not implement the last, CLONE_NEWTIME.
const namespaces = linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC | linux.CLONE_NEWUSER | linux.CLONE_NEWPID |
	linux.CLONE_NEWNET | linux.CLONE_NEWCGROUP | 0x80

// fenceClone makes clone3 fail with EPERM for flags that make a namespace. A seccomp filter can check the flags of clone,
// but not those of clone3, which are in memory: it could only refuse clone3 as a whole.
func fenceClone() error {
	for _, table := range []*kernel.SyscallTable{syscalls.AMD64, syscalls.ARM64} {
		fenced := false
		for number, call := range table.Table {
			if call.Name != "clone3" {
				continue
			}
			call.Fn = clone3
			table.Table[number] = call
			fenced = true
		}
		if !fenced {
			return fmt.Errorf("gVisor's table of %v has no clone3", table.Arch)
		}
		table.Init() // the lookup tables are copies
	}
	return nil
}

// clone3 is gVisor's own clone3, without namespaces. It reads the flags once: a program could change them between two
// reads.
func clone3(t *kernel.Task, _ uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
	size := int(args[1].SizeT())
	if size < linux.CLONE_ARGS_SIZE_VER0 || size > linux.CLONE_ARGS_SIZE_VER2 {
		return 0, nil, linuxerr.EINVAL
	}
	var how linux.CloneArgs
	if at := args[0].Pointer(); at != 0 {
		if _, err := how.CopyInN(t, at, size); err != nil {
			return 0, nil, err
		}
	}
	switch {
	case how.Flags&namespaces != 0:
		return 0, nil, linuxerr.EPERM
	case how.Flags&linux.CLONE_DETACHED != 0,
		how.Flags&(linux.CLONE_THREAD|linux.CLONE_PARENT) != 0 && how.ExitSignal != 0:
		return 0, nil, linuxerr.EINVAL
	}
	pid, control, err := t.Clone(&how)
	if err != nil {
		return 0, nil, err
	}
	return uintptr(pid), control, nil
}
