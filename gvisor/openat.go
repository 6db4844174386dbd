package main

import (
	"fmt"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	syscalls "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// tmpfile is O_TMPFILE without O_DIRECTORY, which it contains.
const tmpfile = linux.O_TMPFILE &^ linux.O_DIRECTORY

// fixOpen makes open(2) and openat(2) with O_DIRECTORY and O_NOFOLLOW fail at a symbolic link, as on Linux. Upstream
// follows it. A program that walks a path one open folder at a time, to stay inside it, would be led elsewhere.
func fixOpen() error {
	for _, table := range []*kernel.SyscallTable{syscalls.AMD64, syscalls.ARM64} {
		mended := 0
		for number, call := range table.Table {
			var at, flags int // positions of the arguments
			switch call.Name {
			case "open":
				at, flags = -1, 1
			case "openat":
				at, flags = 0, 2
			default:
				continue
			}
			call.Fn = openFolder(call.Fn, at, flags)
			table.Table[number] = call
			mended++
		}
		if mended == 0 {
			return fmt.Errorf("gVisor's table of %v has no openat", table.Arch)
		}
		table.Init() // the lookup tables are copies
	}
	return nil
}

// openFolder wraps an open call. at and flags are the positions of the folder and the flags in its arguments; at is -1
// without a folder.
func openFolder(open kernel.SyscallFn, at, flags int) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		how := args[flags].Uint()
		const both = linux.O_DIRECTORY | linux.O_NOFOLLOW
		if how&both != both || how&(linux.O_PATH|linux.O_CREAT|tmpfile) != 0 {
			return open(t, number, args)
		}
		folder := int32(linux.AT_FDCWD)
		if at >= 0 {
			folder = args[at].Int()
		}
		name, err := t.CopyInString(args[flags-1].Pointer(), linux.PATH_MAX)
		if err != nil {
			return 0, nil, err
		}
		file, err := openAt(t, folder, name, how)
		if err != nil {
			return 0, nil, err
		}
		defer file.DecRef(t)
		fd, err := t.NewFDFrom(0, file, kernel.FDFlags{CloseOnExec: how&linux.O_CLOEXEC != 0})
		return uintptr(fd), nil, err
	}
}

// openAt opens a folder in two steps: first the name without following a link, then the result as a folder.
func openAt(t *kernel.Task, folder int32, name string, flags uint32) (*vfs.FileDescription, error) {
	path := fspath.Parse(name)
	root := t.FSContext().RootDirectory()
	defer root.DecRef(t)
	start := root
	switch {
	case path.Absolute:
		start.IncRef()
	case !path.HasComponents():
		return nil, linuxerr.ENOENT
	case folder == linux.AT_FDCWD:
		start = t.FSContext().WorkingDirectory()
	default:
		file := t.GetFile(folder)
		if file == nil {
			return nil, linuxerr.EBADF
		}
		defer file.DecRef(t)
		start = file.VirtualDentry()
		start.IncRef()
	}
	defer start.DecRef(t)
	fs := t.Kernel().VFS()
	place, err := fs.OpenAt(t, t.Credentials(), &vfs.PathOperation{Root: root, Start: start, Path: path},
		&vfs.OpenOptions{Flags: linux.O_PATH | linux.O_DIRECTORY | linux.O_NOFOLLOW})
	if err != nil {
		return nil, err
	}
	defer place.DecRef(t)
	there := place.VirtualDentry()
	// Use no name: "." would require the right to search the folder, which opening it does not.
	return fs.OpenAt(t, t.Credentials(), &vfs.PathOperation{Root: root, Start: there},
		&vfs.OpenOptions{Flags: flags | linux.O_LARGEFILE})
}
