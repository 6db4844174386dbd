//go:build linux

package jar

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/roster"
)

// Jar is a living jar. Its methods are safe for concurrent use.
type Jar struct {
	Pid   int           // of its first process
	Base  int           // the first of its host ids; 0 if it has none of its own, or the record lacks it
	Group *cgroup.Group // nil if the host has no cgroups

	rack     *Rack
	box      Box          // nil for a jar that turned out to have ended
	lock     *os.File     // held while the jar lives; nil if attached: its first process holds it
	lifeline *os.File     // its end shows the first process that its creator is gone; nil if detached
	ids      *idmap.Range // nil if attached: the first process holds the claim
	pidfd    *os.File
	gone     chan struct{} // closed when the first process, and with it everything, has ended

	mu        sync.Mutex
	id        string // changes when it is claimed
	destroyed bool   // Destroy was called
	cleaned   bool
}

// ID returns the jar's id.
func (j *Jar) ID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id
}

// Folder returns the path of its files.
func (j *Jar) Folder() string { return j.rack.roster.Folder(j.ID()) }

// Change replaces the jar's limits, if this host can enforce the new ones.
func (j *Jar) Change(from, to cgroup.Limits) error {
	if j.Group == nil || j.rack.Cgroups == nil {
		return nil
	}
	host := j.rack.Cgroups
	if err := j.Group.Change(host.Enforceable(from), host.Enforceable(to)); err != nil {
		return j.rack.o.Errors.Step(StepCgroup, err, "")
	}
	return nil
}

// watch starts waiting for the end of the first process. Unless it fails, it owns pidfd and waits through the runtime's
// poller: no thread, no polling.
func (j *Jar) watch(pidfd int, child bool) error {
	if err := unix.SetNonblock(pidfd, true); err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	j.gone = make(chan struct{})
	j.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	conn, err := j.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	go func() {
		end := End{Child: child}
		err := conn.Read(func(fd uintptr) bool { return ended(j.Pid, int(fd), &end.Status, child) })
		if err != nil && !errors.Is(err, os.ErrClosed) {
			j.rack.o.Logger.Error("watch sandbox", "sandbox", j.ID(), "error", err)
		}
		j.mu.Lock()
		end.Destroyed = j.destroyed
		j.mu.Unlock()
		if j.box != nil {
			j.box.OnEnd(end)
		}
		close(j.gone)
	}()
	return nil
}

// ended reports whether a process has ended, and reaps it if it is a child of ours: only then is its pid free.
func ended(pid, pidfd int, status *unix.WaitStatus, child bool) bool {
	if !child {
		return roster.Ended(pidfd)
	}
	for {
		got, err := unix.Wait4(pid, status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		return got == pid || err != nil
	}
}

// Ended reports whether the jar has ended.
func (j *Jar) Ended() bool {
	select {
	case <-j.gone:
		return true
	default:
		return false
	}
}

// dead reports whether the first process has ended. It knows that before Ended does, which needs the lock.
func (j *Jar) dead() bool {
	if j.Ended() {
		return true
	}
	conn, err := j.pidfd.SyscallConn()
	over := false
	if err == nil {
		err = conn.Control(func(fd uintptr) { over = roster.Ended(int(fd)) })
	}
	return over || err != nil
}

// Await returns when the jar has ended, or the cause of ctx's end.
func (j *Jar) Await(ctx context.Context) error {
	if j.Ended() {
		return nil
	}
	select {
	case <-j.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Destroy kills the jar's processes and removes its remains, even if ctx ends. It is idempotent. Killing the first process
// of a pid namespace makes the kernel kill everything else in it, and that process's own end is not complete before theirs.
func (j *Jar) Destroy(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	j.mu.Lock()
	j.destroyed = true
	j.mu.Unlock()
	if err := j.Signal(unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill sandbox %s: %w", j.ID(), err)
	}
	if j.Group != nil {
		_ = j.Group.LiftCPU() // after a failure the end only takes longer
	}
	<-j.gone
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cleaned {
		return nil
	}
	if j.Group != nil {
		if err := j.Group.Remove(ctx); err != nil {
			return fmt.Errorf("remove cgroup of sandbox %s: %w", j.id, err)
		}
	}
	if err := j.rack.clean(ctx, j.id); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", j.id, err)
	}
	for _, f := range []*os.File{j.lifeline, j.lock, j.pidfd} {
		if f != nil {
			f.Close()
		}
	}
	if j.ids != nil {
		j.ids.Release()
	}
	j.rack.drop(j)
	j.cleaned = true
	return nil
}

// Signal signals the first process; ESRCH if it has ended.
func (j *Jar) Signal(sig unix.Signal) error {
	if j.Ended() {
		return unix.ESRCH
	}
	conn, err := j.pidfd.SyscallConn()
	if err != nil {
		return unix.ESRCH // closed: cleaned up already
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return unix.ESRCH
	}
	return sent
}
