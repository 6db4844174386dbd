package sprites

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/upstream"
)

// sandbox is one living sandbox. It implements [runtime.Sandbox].
type sandbox struct {
	*runtime.Link
	rt       *Runtime
	id       string
	session  string
	detached bool

	mu        sync.Mutex
	destroyed bool
	line      *line // nil without a connection
}

var _ runtime.Sandbox = (*sandbox)(nil)

// endTime is how long an agent may take to end its programs and itself.
const endTime = 10 * time.Second

// watch starts to follow a sandbox.
func (r *Runtime) watch(id string, l *line, host *wire.MuxHost, detached bool) (*sandbox, error) {
	s := &sandbox{Link: runtime.NewLink(errClosed, errAway), rt: r, id: id, session: l.id(), detached: detached}
	s.connect(l, host)
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

// errAway means that the connection to the sprite was not restored in time.
var errAway = &runtime.StepError{
	Step: stepExec, Err: errors.New("the connection to the sprite is lost, and not restored yet"), Hint: "check that the sprite runs, and the network",
}

// connect sets the line and the dialer of the sandbox; nil for none.
func (s *sandbox) connect(l *line, over runtime.Dialer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = l
	s.Connect(over)
}

// live follows a sandbox until it ends or the runtime is closed.
func (s *sandbox) live(l *line, host *wire.MuxHost) {
	for {
		closing := false
		select {
		case <-host.Done():
		case <-s.rt.closing:
			closing = true
			if !s.detached && l.end() == nil {
				select {
				case <-host.Done(): // the agent has ended its programs, and then itself
				case <-time.After(endTime):
				}
			}
		}
		host.Close()
		s.connect(nil, nil)
		if closing {
			if !s.detached {
				s.rt.end(l)
			}
			s.Leave()
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
			s.Leave()
			return
		}
		s.connect(l, host)
	}
}

// over marks the sandbox as ended.
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
	s.End(exit)
}

// resume finds out why a connection was lost: the session has ended, or it attaches again. It returns neither if the runtime is
// closed meanwhile.
func (s *sandbox) resume() (*line, *wire.MuxHost, *runtime.Exit) {
	patience := time.After(s.rt.opts.Patience)
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
		select {
		case <-time.After(pause):
		case <-patience:
			return nil, nil, &runtime.Exit{Reason: runtime.ExitEngineGone, Detail: err.Error()}
		case <-s.rt.closing:
			return nil, nil, nil
		}
	}
}

// Usage implements [runtime.Sandbox]. There are no figures: no source is reliable.
func (s *sandbox) Usage(context.Context) (runtime.Usage, error) { return runtime.Usage{}, nil }

// Destroy implements [runtime.Sandbox]. The agent ends its programs and itself; if it does not, it is killed. The files in the
// sprite stay.
func (s *sandbox) Destroy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*endTime)
	defer cancel()
	s.mu.Lock()
	s.destroyed = true
	l := s.line
	s.mu.Unlock()
	if l != nil && l.end() == nil {
		select {
		case <-s.Gone():
			return nil
		case <-s.Left():
		case <-time.After(endTime):
		}
	}
	if exit := s.Exit(); exit != nil && exit.Reason != runtime.ExitEngineGone {
		return nil
	}
	if err := s.rt.kill(ctx, s.session); err != nil {
		return fmt.Errorf("end sandbox %s: %w", s.id, fault(stepExec, err))
	}
	select {
	case <-s.Gone():
	case <-s.Left():
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("end sandbox %s", s.id), context.Cause(ctx))
	}
	return s.rt.erase(s.id)
}
