//go:build linux

package native

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/runtime"
)

// sandbox is one living sandbox. It implements [runtime.Sandbox].
type sandbox struct {
	rt       *Runtime
	lock     *os.File     // held while the sandbox lives; nil if attached: the agent holds it
	lifeline *os.File     // its end tells the agent that its creator is gone; nil if detached
	ids      *idmap.Range // nil if attached: the agent holds the claim
	group    *cgroup.Group
	pid      int
	pidfd    *os.File
	pids     int          // how many processes its programs may have
	born     runtime.Spec // what it was made for; zero if attached

	gone chan struct{} // closed when the agent has ended
	exit runtime.Exit  // valid once gone is closed
	last runtime.Usage // valid once gone is closed

	mu        sync.Mutex
	id        string // changes when it is claimed
	destroyed bool   // Destroy was called
	peak      int64  // of processes, as told so far
	cleaned   bool
}

var _ runtime.Sandbox = (*sandbox)(nil)

// ID implements [runtime.Sandbox].
func (s *sandbox) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Dial implements [runtime.Sandbox].
func (s *sandbox) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-s.gone:
		return nil, runtime.ErrGone
	default:
	}
	conn, err := dialUnix(ctx, s.rt.socket(s.ID()))
	if err != nil && (errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)) {
		return nil, fmt.Errorf("%w: %w", runtime.ErrGone, err)
	}
	return conn, err
}

// Usage implements [runtime.Sandbox].
func (s *sandbox) Usage(context.Context) (runtime.Usage, error) {
	select {
	case <-s.gone:
		return s.last, nil
	default:
		return s.usage(), nil
	}
}

func (s *sandbox) usage() runtime.Usage {
	if s.group == nil {
		return runtime.Usage{}
	}
	u := usageOf(s.group.Usage(), tasks(s.pid), int64(s.pids))
	if u.PeakPids != nil {
		// The agent may have more threads by now than it had at the peak; a peak never shrinks.
		s.mu.Lock()
		s.peak = max(s.peak, *u.PeakPids)
		*u.PeakPids = s.peak
		s.mu.Unlock()
	}
	return u
}

// Wait implements [runtime.Sandbox].
func (s *sandbox) Wait(ctx context.Context) (runtime.Exit, error) {
	select {
	case <-s.gone:
		return s.exit, nil
	default:
	}
	select {
	case <-s.gone:
		return s.exit, nil
	case <-ctx.Done():
		return runtime.Exit{}, ctx.Err()
	}
}

// Destroy implements [runtime.Sandbox]. Killing the agent, PID 1 of its namespace, makes the kernel kill everything
// else in it, and the agent's own end is not complete before theirs.
func (s *sandbox) Destroy(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s.mu.Lock()
	s.destroyed = true
	s.mu.Unlock()
	if err := s.signal(unix.SIGKILL); err != nil {
		return fmt.Errorf("kill sandbox %s: %w", s.ID(), err)
	}
	<-s.gone
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cleaned {
		return nil
	}
	if s.group != nil {
		if err := s.group.Remove(ctx); err != nil {
			return fmt.Errorf("remove cgroup of sandbox %s: %w", s.id, err)
		}
	}
	if err := s.rt.clean(ctx, s.id); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", s.id, err)
	}
	if s.lifeline != nil {
		s.lifeline.Close()
	}
	if s.ids != nil {
		s.ids.Release()
	}
	if s.lock != nil {
		s.lock.Close()
	}
	s.pidfd.Close()
	s.rt.drop(s)
	s.cleaned = true
	return nil
}

// signal sends to the agent; an agent that has ended is no error.
func (s *sandbox) signal(sig unix.Signal) error {
	select {
	case <-s.gone:
		return nil
	default:
	}
	conn, err := s.pidfd.SyscallConn()
	if err != nil {
		return nil // closed: cleaned up already
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return nil
	}
	if errors.Is(sent, unix.ESRCH) {
		return nil
	}
	return sent
}

// kill ends a child that never became a sandbox.
func (s *sandbox) kill(pidfd int) {
	unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	for {
		if err := unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED, nil); err != unix.EINTR {
			break
		}
	}
	unix.Close(pidfd)
}

// adopt makes a sandbox of a process found by its record.
func (r *Runtime) adopt(id string, rec record, pidfd int) (*sandbox, error) {
	s := &sandbox{rt: r, id: id, pids: rec.Pids}
	if len(rec.Cgroup) > 0 {
		group, err := cgroup.Open(rec.Cgroup)
		if err != nil {
			unix.Close(pidfd)
			return nil, fmt.Errorf("sandbox %s: %w", id, err)
		}
		s.group = group
	}
	if err := s.watch(rec.Pid, pidfd, false); err != nil {
		unix.Close(pidfd)
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.living[id]; other != nil {
		s.pidfd.Close() // two attached at once; the watch of this one ends
		return other, nil
	}
	r.living[id] = s
	return s, nil
}

func (r *Runtime) remember(s *sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.living[s.id] = s
}

func (r *Runtime) drop(s *sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.living[s.id] == s {
		delete(r.living, s.id)
	}
}
