//go:build linux

package forkexec

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options configure the clone of a program's child.
type Options struct {
	Flags uintptr // CLONE_NEW…; the exit signal is always SIGCHLD
	// Cgroup is a descriptor of a cgroup2 folder that the child is born into; 0 for the parent's own.
	Cgroup int
	// Only lists the descriptors that the program uses in addition to 0, 1 and 2. The child closes all others first, so
	// that it holds none of the descriptors that its parent opens concurrently. nil leaves all of them open until the
	// child's execve.
	Only []int
	// Owner is the user that owns the new user namespace, see [As]; 0 for the parent's own user.
	Owner int
	// Sync runs in the parent as soon as there is a child; see [Program.Sync]. Its error ends the child.
	Sync func(pid int) error
}

// Child is a process that has executed its program. The caller must reap it and close PidFD.
type Child struct {
	Pid   int
	PidFD int
	// StartTime is the start time in clock ticks after boot: together with Pid it identifies the process permanently. 0
	// for a keeper, which is watched through its descriptor.
	StartTime uint64
}

// haveClone3 is false if a seccomp filter or an old kernel refuses clone3.
var haveClone3 = sync.OnceValue(func() bool {
	_, _, e := syscall.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return e != unix.ENOSYS
})

// Start calls [Program.StartContext] without a deadline.
func (p *Program) Start(o Options) (Child, error) { return p.StartContext(context.Background(), o) }

// StartContext forks, executes the program in the child and returns after the child's execve. If a step fails, or ctx
// ends before that, the child is killed and reaped. The error is an [*Error] if a step of the program failed, Sync's own
// error if that failed, and otherwise wraps [ErrVanished] or the cause of ctx's end.
func (p *Program) StartContext(ctx context.Context, o Options) (Child, error) {
	child, control, err := p.fork(o)
	if err != nil {
		return Child{}, err
	}
	defer control.Close()
	defer context.AfterFunc(ctx, func() { control.SetDeadline(time.Unix(1, 0)) })()
	err = p.negotiate(control, child.Pid, o.Sync)
	if err == nil {
		child.StartTime, err = executed(child.Pid)
	}
	if err == nil {
		return child, nil
	}
	unix.PidfdSendSignal(child.PidFD, unix.SIGKILL, nil, 0)
	for {
		_, err := unix.Wait4(child.Pid, nil, 0, nil)
		if err != unix.EINTR {
			break
		}
	}
	unix.Close(child.PidFD)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("child was given up during its setup: %w", context.Cause(ctx))
	}
	return Child{}, err
}

// fork clones the child and returns our end of the socket on which it reports.
func (p *Program) fork(o Options) (Child, *os.File, error) {
	defer p.arena.shrink(p.arena.mark())
	ops := p.ops
	var own []int // in addition to the program's
	clone3 := haveClone3()
	if o.Cgroup > 0 && !clone3 {
		// Without clone3 the child moves itself, through a descriptor that has its parent's rights.
		procs, err := unix.Openat(o.Cgroup, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return Child{}, nil, fmt.Errorf("cgroup.procs: %w", err)
		}
		defer unix.Close(procs)
		ops, own = p.joined(procs), append(own, procs)
	}
	m := p.machine(ops, o.Flags)
	if o.Cgroup > 0 && clone3 {
		m.clone.flags |= unix.CLONE_INTO_CGROUP
		m.clone.cgroup = uint64(o.Cgroup)
	}

	// Under the lock, so that no other child inherits an end: if such a child were stopped, we would not get our child's
	// end of file until it continues.
	syscall.ForkLock.Lock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		syscall.ForkLock.Unlock()
		return Child{}, nil, fmt.Errorf("control socket: %w", err)
	}
	// The child inherits our end as well, and would wait for itself after our death.
	gaps := [][2]uintptr{{uintptr(pair[0]), uintptr(pair[0])}}
	if o.Only != nil {
		gaps = between(append(own, pair[1]), o.Only)
	}
	m.control, m.close, m.closes = uintptr(pair[1]), Slice(p, gaps), len(gaps)
	var pid uintptr
	err = As(o.Owner, func() error {
		var errno syscall.Errno
		if pid, errno = fork(m, p.arena); errno != 0 {
			return &Error{Step: "clone", Errno: errno}
		}
		return nil
	})
	unix.Close(pair[1])
	syscall.ForkLock.Unlock()
	if err != nil {
		unix.Close(pair[0])
		return Child{}, nil, err
	}
	child := Child{Pid: int(pid), PidFD: int(m.pidfd)}
	// Our end uses the poller: a thread that blocks in a read would keep other goroutines from running, and could not be
	// interrupted. A socket always supports the poller.
	unix.SetNonblock(pair[0], true)
	return child, os.NewFile(uintptr(pair[0]), "control"), nil
}

// machine returns the program's machine, ready to start.
func (p *Program) machine(ops []op, flags uintptr) *machine {
	m := p.m
	*m = machine{ops: unsafe.SliceData(ops), count: len(ops), end: -1, keeps: p.keeps, clone3: haveClone3()}
	m.clone = cloneArgs{
		flags:      uint64(flags | unix.CLONE_PIDFD),
		exitSignal: uint64(unix.SIGCHLD),
		pidfd:      uint64(uintptr(unsafe.Pointer(&m.pidfd))),
	}
	return m
}

// joined returns the operations after another one, which moves the child into the cgroup whose cgroup.procs is open.
func (p *Program) joined(procs int) []op {
	join := op{kind: opCall, nr: unix.SYS_WRITE, out: -1, args: [6]uintptr{uintptr(procs), p.Str("0").v, 1}}
	return append(append(room[op](p.arena, len(p.ops)+1)[:0], join), p.ops...)
}

// between returns the ranges of all descriptors except the given ones and 0, 1 and 2.
func between(lists ...[]int) (gaps [][2]uintptr) {
	stay := slices.Concat(lists...)
	slices.Sort(stay)
	next := 3
	for _, fd := range stay {
		if next < fd {
			gaps = append(gaps, [2]uintptr{uintptr(next), uintptr(fd - 1)})
		}
		next = max(next, fd+1)
	}
	return append(gaps, [2]uintptr{uintptr(next), uintptr(^uint32(0))})
}

// negotiate lets the child continue after Sync. It returns nil after the child's execve or death, or the child's
// failure.
func (p *Program) negotiate(control io.ReadWriter, pid int, onSync func(int) error) error {
	if onSync != nil {
		if err := onSync(pid); err != nil {
			return err
		}
	}
	// A child that has already failed cannot read this; its report explains why.
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
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %w", ErrVanished, errors.Join(wrote, err))
}

// executed returns after a child of ours has closed its end of the control socket: its execve succeeded, or it is dead.
// Its process id is its own until we reap it.
func executed(pid int) (uint64, error) {
	stat, err := ReadStat(pid)
	if err != nil {
		return 0, fmt.Errorf("look at child: %w", err)
	}
	if stat.Forked {
		return 0, ErrVanished
	}
	return stat.StartTime, nil
}
