package sprites

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/upstream"
)

// sandbox is one living sandbox. It implements [runtime.Sandbox].
type sandbox struct {
	rt       *Runtime
	id       string
	session  string
	detached bool

	gone chan struct{} // closed when it has ended
	exit runtime.Exit  // valid once gone is closed
	left chan struct{} // closed when the runtime was closed and no longer watches it

	mu        sync.Mutex
	destroyed bool
	line      *line
	host      *wire.MuxHost // nil while there is no connection
	changed   chan struct{} // closed when host changes
}

var _ runtime.Sandbox = (*sandbox)(nil)

// endTime is how long an agent may take to end everything and then itself.
const endTime = 10 * time.Second

// watch follows a sandbox from now on.
func (r *Runtime) watch(id string, l *line, host *wire.MuxHost, detached bool) (*sandbox, error) {
	s := &sandbox{
		rt: r, id: id, session: l.id(), detached: detached,
		gone: make(chan struct{}), left: make(chan struct{}), line: l, host: host, changed: make(chan struct{}),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.closing:
		host.Close()
		delete(r.boxes, id)
		return nil, errClosed
	default:
	}
	r.boxes[id] = s
	r.watches.Add(1)
	go func() {
		defer r.watches.Done()
		s.live(l, host)
	}()
	return s, nil
}

// ID implements [runtime.Sandbox].
func (s *sandbox) ID() string { return s.id }

// Dial implements [runtime.Sandbox]. While there is no connection to the sprite it waits for another one.
func (s *sandbox) Dial(ctx context.Context) (net.Conn, error) {
	for {
		s.mu.Lock()
		host, changed := s.host, s.changed
		s.mu.Unlock()
		if host != nil {
			conn, err := host.Dial(ctx)
			if err == nil || ctx.Err() != nil {
				return conn, err
			}
		}
		select {
		case <-s.gone:
			return nil, runtime.ErrGone
		case <-s.left:
			return nil, errClosed
		case <-changed:
		case <-ctx.Done():
			return nil, fault(stepExec, fmt.Errorf("the connection to the sprite is not restored yet: %w", context.Cause(ctx)))
		}
	}
}

// connect says over what the sandbox can be dialled; nil for nothing.
func (s *sandbox) connect(l *line, host *wire.MuxHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line, s.host = l, host
	close(s.changed)
	s.changed = make(chan struct{})
}

// live follows a sandbox to its end, or to the runtime's.
func (s *sandbox) live(l *line, host *wire.MuxHost) {
	for {
		closing := false
		select {
		case <-host.Done():
		case <-s.rt.closing:
			closing = true
			if !s.detached && l.end() == nil {
				timer := time.NewTimer(endTime)
				select {
				case <-host.Done(): // the agent has ended its programs, and then itself
				case <-timer.C:
				}
				timer.Stop()
			}
		}
		host.Close()
		s.connect(nil, nil)
		if closing {
			if !s.detached {
				s.rt.end(l)
			}
			close(s.left)
			return
		}
		if status := l.status(); status != nil {
			s.over(runtime.Exit{Reason: runtime.ExitAgent, Detail: fmt.Sprintf("agent ended with status %d: %s", *status, l.stderr())})
			return
		}
		s.rt.opts.Observe("disconnected", upstream.Unreachable)
		var exit *runtime.Exit
		if l, host, exit = s.resume(); exit != nil {
			s.over(*exit)
			return
		}
		if host == nil {
			close(s.left)
			return
		}
		s.connect(l, host)
	}
}

// over is the sandbox's end.
func (s *sandbox) over(exit runtime.Exit) {
	s.mu.Lock()
	if s.destroyed {
		exit = runtime.Exit{Reason: runtime.ExitDestroyed}
	}
	s.mu.Unlock()
	if err := s.rt.erase(s.id); err != nil {
		s.rt.log.Error("the record of a sandbox is left", "sandbox", s.id, "err", err)
	}
	s.rt.drop(s.id)
	s.exit = exit
	close(s.gone)
}

// resume finds out what a lost connection means: that the session has ended, or that it can be attached to again. Neither if the
// runtime is closed meanwhile.
func (s *sandbox) resume() (*line, *wire.MuxHost, *runtime.Exit) {
	patience := time.NewTimer(s.rt.opts.Patience)
	defer patience.Stop()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), wake)
		there, err := s.rt.living(ctx, s.session)
		if err == nil && !there {
			cancel()
			return nil, nil, &runtime.Exit{Reason: runtime.ExitKilled, Detail: "the sprite no longer has the session"}
		}
		if err == nil {
			l, joinErr := s.rt.join(ctx, s.session, s.id)
			if err = joinErr; err == nil {
				cancel()
				return l, wire.NewMuxHost(l), nil
			}
		}
		cancel()
		s.rt.opts.Observe("attach_failed", upstream.ReasonOf(err))
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-patience.C:
			timer.Stop()
			return nil, nil, &runtime.Exit{Reason: runtime.ExitEngineGone, Detail: err.Error()}
		case <-s.rt.closing:
			timer.Stop()
			return nil, nil, nil
		}
	}
}

// Usage implements [runtime.Sandbox]. There is no figure with an honest source.
func (s *sandbox) Usage(context.Context) (runtime.Usage, error) { return runtime.Usage{}, nil }

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
	case <-s.left:
		return runtime.Exit{}, errClosed
	case <-ctx.Done():
		return runtime.Exit{}, ctx.Err()
	}
}

// Destroy implements [runtime.Sandbox]. The agent ends its programs and then itself; one that does not is killed. The files in the
// sprite stay.
func (s *sandbox) Destroy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*endTime)
	defer cancel()
	s.mu.Lock()
	s.destroyed = true
	l := s.line
	s.mu.Unlock()
	if l != nil && l.end() == nil {
		timer := time.NewTimer(endTime)
		defer timer.Stop()
		select {
		case <-s.gone:
			return nil
		case <-s.left:
		case <-timer.C:
		}
	}
	select {
	case <-s.gone:
		if s.exit.Reason != runtime.ExitEngineGone {
			return nil
		}
	default:
	}
	if err := s.rt.kill(ctx, s.session); err != nil {
		return fmt.Errorf("end sandbox %s: %w", s.id, fault(stepExec, err))
	}
	select {
	case <-s.gone:
	case <-s.left:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("end sandbox %s", s.id), context.Cause(ctx))
	}
	return s.rt.erase(s.id)
}
