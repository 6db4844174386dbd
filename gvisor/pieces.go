package main

import (
	"fmt"
	"strings"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	syscalls "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/usermem"
)

// memoryDevices is the major number of /dev/zero and similar devices.
const memoryDevices = 1

// divideTransfers splits system calls in which gVisor itself fills memory of programs into pieces, with a check after each.
// Otherwise one read of /dev/zero could fill any amount between two checks.
func (w *watch) divideTransfers() error {
	for _, table := range []*kernel.SyscallTable{syscalls.AMD64, syscalls.ARM64} {
		divided := 0
		for number, call := range table.Table {
			switch call.Name {
			case "read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2":
				call.Fn = w.inPieces(call.Name, call.Fn)
			case "sendfile":
				call.Fn = w.shortened(call.Fn, 3)
			case "getrandom":
				call.Fn = w.shortened(call.Fn, 1)
			case "fallocate":
				call.Fn = w.allocated(call.Fn)
			default:
				continue
			}
			table.Table[number] = call
			divided++
		}
		if divided != 13 {
			return fmt.Errorf("gVisor's table of %v has %d of the 13 calls that fill memory", table.Arch, divided)
		}
		table.Init() // the lookup tables are copies
	}
	return nil
}

// piece is how much is filled between two looks: half of the excess over their limit that the specification allows programs.
func (w *watch) piece() int64 { return int64(max(4<<20, w.limit.bytes()/40)) }

// inPieces wraps a call of the read(2) and write(2) family. It splits only transfers of files that never wait for more data: a pipe
// or a socket holds less than one piece.
func (w *watch) inPieces(name string, whole kernel.SyscallFn) kernel.SyscallFn {
	vector, positioned := strings.Contains(name, "v"), strings.HasPrefix(name, "p")
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		if !vector && args[2].Uint64() <= uint64(w.piece()) {
			return whole(t, number, args)
		}
		file := t.GetFile(args[0].Int())
		if file == nil {
			return 0, nil, linuxerr.EBADF
		}
		defer file.DecRef(t)
		if !neverWaits(t, file) {
			return whole(t, number, args)
		}
		// Read the vector once: the program could lengthen it.
		memory, err := transferred(t, vector, args)
		if err != nil {
			return 0, nil, err
		}
		offset, flags := int64(-1), uint32(0)
		if positioned {
			offset = args[3].Int64()
		}
		second := strings.HasSuffix(name, "v2")
		if second {
			flags = args[5].Uint()
		}
		if positioned && offset < 0 && (!second || offset < -1) {
			return 0, nil, linuxerr.EINVAL
		}
		n, err := w.transfer(t, memory, func(piece usermem.IOSequence, done int64) (int64, error) {
			switch {
			case strings.Contains(name, "read") && offset < 0:
				return file.Read(t, piece, vfs.ReadOptions{Flags: flags})
			case strings.Contains(name, "read"):
				return file.PRead(t, piece, offset+done, vfs.ReadOptions{Flags: flags})
			case offset < 0:
				return file.Write(t, piece, vfs.WriteOptions{Flags: flags})
			}
			return file.PWrite(t, piece, offset+done, vfs.WriteOptions{Flags: flags})
		})
		return uintptr(n), nil, syscalls.HandleIOError(t, n != 0, err, linuxerr.ERESTARTSYS, name, file)
	}
}

// transferred returns the memory that a call of the family reads or writes.
func transferred(t *kernel.Task, vector bool, args arch.SyscallArguments) (usermem.IOSequence, error) {
	if vector {
		return t.IovecsIOSequence(args[1].Pointer(), int(args[2].Int()), usermem.IOOpts{})
	}
	size := int(args[2].SizeT())
	if size < 0 {
		return usermem.IOSequence{}, linuxerr.EINVAL
	}
	return t.SingleIOSequence(args[1].Pointer(), size, usermem.IOOpts{})
}

func (w *watch) transfer(t *kernel.Task, memory usermem.IOSequence, one func(piece usermem.IOSequence, done int64) (int64, error)) (done int64, err error) {
	for size := w.piece(); memory.NumBytes() > 0 && err == nil; {
		piece := memory.TakeFirst64(size)
		var n int64
		n, err = one(piece, done)
		done += n
		w.look()
		if n < piece.NumBytes() || t.Killed() {
			break
		}
		memory = memory.DropFirst64(n)
	}
	return done, err
}

// neverWaits reports whether file is a regular file or a device like /dev/zero.
func neverWaits(t *kernel.Task, file *vfs.FileDescription) bool {
	st, err := file.Stat(t, vfs.StatOptions{Mask: linux.STATX_TYPE})
	if err != nil {
		return false
	}
	switch st.Mode & linux.S_IFMT {
	case linux.S_IFREG:
		return true
	case linux.S_IFCHR:
		return st.RdevMajor == memoryDevices
	}
	return false
}

// shortened wraps a call that may transfer less than requested, with the size in argument number at.
func (w *watch) shortened(whole kernel.SyscallFn, at int) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		args[at].Value = min(args[at].Value, uintptr(w.piece()))
		return whole(t, number, args)
	}
}

// allocated wraps fallocate(2), and splits it for a file of memfd_create.
func (w *watch) allocated(whole kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		file := t.GetFile(args[0].Int())
		if file == nil {
			return 0, nil, linuxerr.EBADF
		}
		ours := file.VirtualDentry().Mount() == t.Kernel().ShmMount()
		file.DecRef(t)
		for size := uintptr(w.piece()); ours && args[3].Int64() > int64(size); {
			piece := args
			piece[3].Value = size
			if n, control, err := whole(t, number, piece); err != nil {
				return n, control, err
			}
			w.look()
			args[2].Value += size
			args[3].Value -= size
		}
		return whole(t, number, args)
	}
}
