//go:build linux

package forkexec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options say how a program's child is cloned.
type Options struct {
	Flags uintptr // CLONE_NEW…; the exit signal is always SIGCHLD
	// Cgroup is a descriptor of a cgroup2 folder that the child is born into; 0 for the parent's own.
	Cgroup int
	// Sync is called in the parent as soon as there is a child; see [Program.Sync]. Its error ends the child.
	Sync func(pid int) error
}

// Child is a process that has become another program. The caller reaps it and closes PidFD.
type Child struct {
	Pid   int
	PidFD int
}

// haveClone3 is false where a seccomp filter or an old kernel refuses clone3.
var haveClone3 = sync.OnceValue(func() bool {
	_, _, e := syscall.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return e != unix.ENOSYS
})

// Start forks, carries the program out in the child and returns when the child has executed its new program. When
// anything fails the child has been reaped; the error is an [*Error] if a step of the program failed, and Sync's own
// if that did.
func (p *Program) Start(o Options) (Child, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Child{}, fmt.Errorf("control socket: %w", err)
	}
	// Our end waits in the poller: a thread that blocks in a read would keep other goroutines from running.
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return Child{}, fmt.Errorf("control socket: %w", err)
	}
	control := os.NewFile(uintptr(pair[0]), "control")
	defer control.Close()

	ops := p.ops
	clone3 := haveClone3()
	if o.Cgroup > 0 && !clone3 {
		// Without clone3 the child moves itself, through a descriptor that carries its parent's rights.
		procs, err := unix.Openat(o.Cgroup, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			unix.Close(pair[1])
			return Child{}, fmt.Errorf("cgroup.procs: %w", err)
		}
		defer unix.Close(procs)
		join := New()
		join.Call(unix.SYS_WRITE, Int(procs), join.Str("0"), Int(1))
		p.keep = append(p.keep, join)
		ops = append(join.ops, ops...)
	}
	m := &machine{ops: unsafe.SliceData(ops), count: len(ops), control: uintptr(pair[1])}
	pidfd := new(int32)
	p.keep = append(p.keep, pidfd) // for the kernel to write to: on the heap, since a stack may move
	args := &cloneArgs{
		flags:      uint64(o.Flags | unix.CLONE_PIDFD),
		exitSignal: uint64(unix.SIGCHLD),
		pidfd:      uint64(uintptr(unsafe.Pointer(pidfd))),
	}
	if o.Cgroup > 0 && clone3 {
		args.flags |= unix.CLONE_INTO_CGROUP
		args.cgroup = uint64(o.Cgroup)
	}

	syscall.ForkLock.Lock()
	pid, errno := fork(m, args, clone3)
	syscall.ForkLock.Unlock()
	unix.Close(pair[1])
	runtime.KeepAlive(p)
	runtime.KeepAlive(ops)
	runtime.KeepAlive(m)
	runtime.KeepAlive(args)
	if errno != 0 {
		return Child{}, &Error{Step: "clone", Errno: errno}
	}
	child := Child{Pid: int(pid), PidFD: int(*pidfd)}
	runtime.KeepAlive(pidfd)
	if err := p.converse(control, child.Pid, o.Sync); err != nil {
		unix.PidfdSendSignal(child.PidFD, unix.SIGKILL, nil, 0)
		for {
			_, err := unix.Wait4(child.Pid, nil, 0, nil)
			if err != unix.EINTR {
				break
			}
		}
		unix.Close(child.PidFD)
		return Child{}, err
	}
	return child, nil
}

// converse lets the child go on behind Sync, and returns when it has become its new program (nil) or failed.
func (p *Program) converse(control io.ReadWriter, pid int, onSync func(int) error) error {
	if onSync != nil {
		if err := onSync(pid); err != nil {
			return err
		}
	}
	// A child that has failed already is not there to read it; its report is.
	var wrote error
	if p.sync {
		_, wrote = control.Write([]byte{1})
	}
	var buf [reportSize]byte
	_, err := io.ReadFull(control, buf[:])
	switch {
	case err == nil:
		step, errno := binary.NativeEndian.Uint32(buf[0:]), binary.NativeEndian.Uint32(buf[4:])
		return &Error{Step: p.steps[step], Errno: unix.Errno(errno)}
	case errors.Is(err, io.EOF) && wrote == nil:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrVanished, errors.Join(wrote, err))
}
