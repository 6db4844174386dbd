//go:build linux

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/runtime"
)

// sandbox is one living sandbox. It implements [runtime.Sandbox].
type sandbox struct {
	rt       *Runtime
	lock     *os.File     // held while the sandbox lives; nil if attached: the keep holds it
	lifeline *os.File     // its end tells the keep that its creator is gone; nil if detached
	ids      *idmap.Range // nil if attached: the keep holds the claim
	group    *cgroup.Group
	pidfd    *os.File     // the keep's
	born     runtime.Spec // what it was made for; zero if attached
	again    int64        // see [againBytes]
	mould    mould
	base     int // the first of its host ids, which is the keep's user

	gone chan struct{} // closed when the keep, and with it everything, has ended
	exit runtime.Exit  // valid once gone is closed
	last runtime.Usage // valid once gone is closed

	mu        sync.Mutex
	id        string // changes when it is claimed
	destroyed bool   // Destroy was called
	cleaned   bool
}

var (
	_ runtime.Sandbox     = (*sandbox)(nil)
	_ runtime.Pauser      = (*sandbox)(nil)
	_ runtime.Snapshotter = (*sandbox)(nil)
)

// ID implements [runtime.Sandbox].
func (s *sandbox) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Dial implements [runtime.Sandbox].
func (s *sandbox) Dial(ctx context.Context) (net.Conn, error) { return s.dial(ctx, streamSocket) }

func (s *sandbox) dial(ctx context.Context, socket string) (net.Conn, error) {
	if s.ended() {
		return nil, runtime.ErrGone
	}
	conn, err := dialUnix(ctx, filepath.Join(s.rt.roster.Folder(s.ID()), socket))
	if err != nil && (errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)) {
		return nil, fmt.Errorf("%w: %w", runtime.ErrGone, err)
	}
	return conn, err
}

// Usage implements [runtime.Sandbox].
func (s *sandbox) Usage(context.Context) (runtime.Usage, error) {
	if s.ended() {
		return s.last, nil
	}
	return s.usage(), nil
}

func (s *sandbox) usage() runtime.Usage {
	if s.group == nil {
		return runtime.Usage{}
	}
	return usageOf(s.group.Usage())
}

// Wait implements [runtime.Sandbox].
func (s *sandbox) Wait(ctx context.Context) (runtime.Exit, error) {
	if s.ended() {
		return s.exit, nil
	}
	select {
	case <-s.gone:
		return s.exit, nil
	case <-ctx.Done():
		return runtime.Exit{}, ctx.Err()
	}
}

// Destroy implements [runtime.Sandbox]. Killing the keep, the first of its process namespace, makes the kernel kill
// everything else in it, and the keep's own end is not complete before theirs. Nothing of runsc's lies outside.
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

// signal sends to the keep; one that has ended is no error.
func (s *sandbox) signal(sig unix.Signal) error {
	if s.ended() {
		return nil
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

// ended says whether the keep has ended.
func (s *sandbox) ended() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// kill ends a keep that never became a sandbox's, and takes the pidfd.
func kill(pidfd int) {
	unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	for {
		if err := unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED, nil); err != unix.EINTR {
			break
		}
	}
	unix.Close(pidfd)
}

// adopt makes a sandbox of a keep found by its record.
func (r *Runtime) adopt(id string, rec record, pidfd int) (*sandbox, error) {
	s := &sandbox{rt: r, id: id, mould: rec.Born, base: rec.IDBase}
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
