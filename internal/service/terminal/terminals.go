// Package terminal manages the terminals in sessions: programs on a PTY that callers can attach to, detach from and
// reattach to.
package terminal

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/lifecycle"
)

// Session is a live session from the view of its terminals.
type Session interface {
	// Owner returns the creator of the session.
	Owner() belljar.Caller
	// Session returns the session's current state, and Limits the limits of its sandbox.
	Session() belljar.Session
	Limits() belljar.Limits
	// Context ends when the session ends.
	Context() context.Context
	// Box returns its sandbox with its agent, and Execution a command in it without arguments.
	Box() *box.Box
	Execution() wire.Exec
	// Touch records a use of the session. KeepAlive records activity that resets the idle timeout but not the TTL.
	Touch()
	KeepAlive()
}

// Options configures [Terminals].
type Options struct {
	Limits Limits
	// Acquire counts a use of a session in which the caller may open a terminal, until release is called.
	Acquire func(ctx context.Context, caller belljar.Caller, id string) (x Session, release func(), err error)
	// Living reports whether a session that the caller may see is live.
	Living func(ctx context.Context, caller belljar.Caller, id string) (bool, error)
	// Ended returns the error for a session whose context has ended, or whose sandbox has died.
	Ended func(context.Context, belljar.Session) error
	// Refused converts an error for the caller, and records a refusal.
	Refused func(caller belljar.Caller, doing string, err error) error
	// Destroy removes the sandbox of a session.
	Destroy func(id string, sandbox runtime.Sandbox)
	// Record records an event and fills in its time and component.
	Record func(event.Event)
	// Slack is how much longer than its agent's deadline a program may last.
	Slack time.Duration
	Work  *lifecycle.Group
	Clock clock.Clock
	Log   *slog.Logger
}

// Terminals manages the terminals of all sessions.
type Terminals struct {
	opts  Options
	table table
}

// New returns Terminals with these options.
func New(opts Options) *Terminals { return &Terminals{opts: opts} }

// As returns the terminals as one caller sees them.
func (s *Terminals) As(caller belljar.Caller) belljar.Terminals { return view{s, caller} }

// now returns the time in the precision of records.
func (s *Terminals) now() time.Time { return clock.Stamp(s.opts.Clock) }

// view is the terminals as one caller sees them.
type view struct {
	*Terminals
	caller belljar.Caller
}

var _ belljar.Terminals = view{}

// Open starts a terminal, without a client.
func (v view) Open(ctx context.Context, sessionID string, spec belljar.TerminalSpec) (belljar.Terminal, error) {
	t, err := v.open(ctx, sessionID, spec)
	if err != nil {
		return belljar.Terminal{}, v.opts.Refused(v.caller, "open a terminal", err)
	}
	return t.snapshot(), nil
}

func (v view) open(ctx context.Context, sessionID string, spec belljar.TerminalSpec) (*terminal, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	x, release, err := v.opts.Acquire(ctx, v.caller, sessionID)
	if err != nil {
		return nil, err
	}
	defer release()
	now := v.now()
	t := v.make(x, belljar.Terminal{
		ID: belljar.NewID(), Name: spec.Name, Command: slices.Clone(spec.Command), Shared: spec.Shared,
		Cols: cmp.Or(spec.Cols, 80), Rows: cmp.Or(spec.Rows, 24), CreatedAt: now, DetachedAt: now,
	})
	if err := v.table.enter(t, t.limits.PerSession, t.limits.PerUser); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, clock.Seconds(x.Limits().StartupTimeoutSec), fault.ErrStartupTimeout)
	defer cancel()
	var proc *agent.Process
	if err = t.box.Network.Pin(ctx); err == nil {
		proc, err = t.start(ctx)
	}
	if err != nil {
		if refused := (*wire.Error)(nil); !errors.As(err, &refused) { // it may have started
			v.opts.Work.Do(func() { v.opts.Work.Go(func() { _ = t.box.End(execPrefix+t.id, 0, v.opts.Slack) }) })
		}
		t.cancel()
		return nil, t.startError(ctx, err)
	}
	if !v.opts.Work.Do(func() { t.run(proc, v.caller) }) {
		_ = proc.End(0) // its session ends it at the latest
		proc.Close()
		t.cancel()
		return nil, fault.ShuttingDown()
	}
	return t, nil
}

// Get returns a terminal in its current state.
func (v view) Get(_ context.Context, id string) (belljar.Terminal, error) {
	t, err := v.find(id)
	if err != nil {
		return belljar.Terminal{}, err
	}
	return t.snapshot(), nil
}

// List returns the terminals of a session, none for an ended session.
func (v view) List(ctx context.Context, sessionID string) ([]belljar.Terminal, error) {
	living, err := v.opts.Living(ctx, v.caller, sessionID)
	if err != nil {
		return nil, err
	}
	list := []belljar.Terminal{}
	if !living {
		return list, nil
	}
	for _, t := range v.table.in(sessionID) {
		if !t.closed() {
			list = append(list, t.snapshot())
		}
	}
	if v.opts.Work.Closing().Err() != nil { // after the loop: it closes terminals that continue in the next process
		return nil, fault.ShuttingDown()
	}
	return list, nil
}

// Attach attaches to a terminal.
func (v view) Attach(ctx context.Context, id string) (belljar.Attachment, error) {
	t, err := v.find(id)
	if err == nil {
		err = t.box.Network.Pin(ctx)
	}
	if err != nil {
		return nil, err
	}
	a, err := t.attach()
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Close ends a terminal and waits until its program has ended.
func (v view) Close(ctx context.Context, id string) error {
	t, err := v.find(id)
	if err != nil {
		return err
	}
	t.endIf(endedByCaller, func() bool {
		if t.last == nil {
			t.closer = v.caller
		}
		return true
	})
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find returns a terminal that the caller may see.
func (v view) find(id string) (*terminal, error) {
	t := v.table.get(id)
	if t == nil || !v.caller.Sees(t.owner.ID) || t.closed() {
		return nil, v.missing(id)
	}
	return t, nil
}

// missing returns the error for a terminal that does not exist, or that the caller may not see. While the service closes, it may be one
// that continues in the next process.
func (s *Terminals) missing(id string) error {
	if s.opts.Work.Closing().Err() != nil {
		return fault.ShuttingDown()
	}
	return notFound(id)
}
