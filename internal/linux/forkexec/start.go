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

// Options state how a program's child is cloned.
type Options struct {
	Flags uintptr // CLONE_NEW…; the exit signal is always SIGCHLD
	// Cgroup is a descriptor of a cgroup2 folder that the child is born into; 0 for the parent's own.
	Cgroup int
	// Only are the descriptors that the program uses besides 0, 1 and 2: the child closes all others before anything
	// else, so that it holds nothing of whatever its parent does at the same time. nil leaves all of them open until
	// the child executes its new program.
	Only []int
	// Owner is whose the new user namespace is, as [As] has it; 0 for the parent's own user.
	Owner int
	// Sync is called in the parent as soon as there is a child; see [Program.Sync]. Its error ends the child.
	Sync func(pid int) error
}

// Child is a process that has executed its program. The caller must reap it and close PidFD.
type Child struct {
	Pid   int
	PidFD int
	// StartTime is when it was started, in clock ticks after boot: with Pid it names the process for good. 0 for a
	// keeper, which is looked at by its descriptor.
	StartTime uint64
}

// haveClone3 is false where a seccomp filter or an old kernel refuses clone3.
var haveClone3 = sync.OnceValue(func() bool {
	_, _, e := syscall.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return e != unix.ENOSYS
})

// Start calls [Program.StartContext] without a deadline.
func (p *Program) Start(o Options) (Child, error) { return p.StartContext(context.Background(), o) }

// StartContext forks, carries the program out in the child and returns when the child has executed its new program.
// When anything fails, or ctx ends before, the child has been killed and reaped. The error is an [*Error] if a step of
// the program failed, Sync's own if that did, and otherwise wraps [ErrVanished] or the cause of ctx's end.
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
	var own []int // besides the program's
	clone3 := haveClone3()
	if o.Cgroup > 0 && !clone3 {
		// Without clone3 the child moves itself, through a descriptor that carries its parent's rights.
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

	// Under the lock, so that no other child has an end of it: were it stopped, we would wait for our child's end of
	// file until it continues.
	syscall.ForkLock.Lock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		syscall.ForkLock.Unlock()
		return Child{}, nil, fmt.Errorf("control socket: %w", err)
	}
	// The child has our end as well, and would wait for itself when we have died.
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
	// Our end waits in the poller: a thread that blocks in a read would keep other goroutines from running, and could
	// not be made to stop. A socket can always be made so.
	unix.SetNonblock(pair[0], true)
	return child, os.NewFile(uintptr(pair[0]), "control"), nil
}

// machine is the program's, set to begin.
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

// joined are the operations after another one, which moves the child into the cgroup whose cgroup.procs is open.
func (p *Program) joined(procs int) []op {
	join := op{kind: opCall, nr: unix.SYS_WRITE, out: -1, args: [6]uintptr{uintptr(procs), p.Str("0").v, 1}}
	return append(append(room[op](p.arena, len(p.ops)+1)[:0], join), p.ops...)
}

// between are the ranges of all descriptors but those given and 0, 1 and 2.
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

// negotiate lets the child continue after Sync, and returns when it has become its new program or died (nil), or failed.
func (p *Program) negotiate(control io.ReadWriter, pid int, onSync func(int) error) error {
	if onSync != nil {
		if err := onSync(pid); err != nil {
			return err
		}
	}
	// A child that has failed already cannot read it; its report is.
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

// executed returns when a child of ours was started, which has closed its end of the control socket: it has become
// another program, or else it is dead. Its process id is its own until we reap it.
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
