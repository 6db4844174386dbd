// Package port reaches programs that listen in sessions: it lists their ports and connects to them.
package port

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// Session is a live session from the view of connections to its ports.
type Session interface {
	// Session returns the session's current state.
	Session() belljar.Session
	// Context ends when the session ends, or its sandbox is released; Life ends when the session ends.
	Context() context.Context
	Life() context.Context
	// Box returns its sandbox with its agent.
	Box() *box.Box
	// Touch records a use of the session.
	Touch()
}

// Limits bounds the connections. A zero field has its default.
type Limits struct {
	// PerSession is how many connections to one session may be open; 0 is 128.
	PerSession int
	// Previews enables previews, PublicPreviews those without a token.
	Previews, PublicPreviews bool
	// PreviewsPerSession is how many previews a session may have; 0 is 32.
	PreviewsPerSession int
}

// Options configures [Ports].
type Options struct {
	Limits Limits
	// Acquire counts a use of a session that the caller may connect to, until release is called.
	Acquire func(ctx context.Context, caller belljar.Caller, id string) (x Session, release func(), err error)
	// Check returns an error unless the caller may see the session and it has not ended. It is no use, and does not wake the session.
	Check func(caller belljar.Caller, id string) error
	// Ended returns the error for a session whose context has ended, or whose sandbox has died.
	Ended func(context.Context, belljar.Session) error
	// Refused converts an error for the caller, and records a refusal.
	Refused func(caller belljar.Caller, doing string, err error) error
	// Record records an event and fills in its time and component.
	Record    func(event.Event)
	Now       func() time.Time
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// Ports manages the connections to all sessions.
type Ports struct {
	opts     Options
	table    table
	previews previews
}

// New returns Ports with these options.
func New(opts Options) *Ports {
	opts.Limits.PerSession = cmp.Or(opts.Limits.PerSession, 128)
	opts.Limits.PreviewsPerSession = cmp.Or(opts.Limits.PreviewsPerSession, 32)
	return &Ports{opts: opts}
}

// As returns the ports as one caller sees them.
func (p *Ports) As(caller belljar.Caller) belljar.Ports { return view{p, caller} }

// view is the ports as one caller sees them.
type view struct {
	*Ports
	caller belljar.Caller
}

var _ belljar.Ports = view{}

// dialTime bounds a connection attempt, and a list.
const dialTime = 30 * time.Second

// List returns the ports that programs listen on.
func (v view) List(ctx context.Context, sessionID string) ([]belljar.Port, error) {
	list, err := v.list(ctx, sessionID)
	if err != nil {
		return nil, v.opts.Refused(v.caller, "list ports", err)
	}
	return list, nil
}

func (v view) list(ctx context.Context, sessionID string) ([]belljar.Port, error) {
	x, release, err := v.opts.Acquire(ctx, v.caller, sessionID)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	found, _, err := x.Box().Agent.Ports(ctx)
	if err != nil {
		return nil, v.fault(x, 0, err)
	}
	list := []belljar.Port{}
	for _, l := range found {
		list = append(list, belljar.Port{Port: int(l.Port), Address: l.Address, Program: l.Program, PID: l.Pid})
	}
	return list, nil
}

// Dial connects to a port.
func (v view) Dial(ctx context.Context, sessionID string, port int) (belljar.PortConn, error) {
	c, err := v.dial(ctx, v.caller, sessionID, port)
	if err != nil {
		return nil, v.opts.Refused(v.caller, "connect to a port", err)
	}
	return c, nil
}

func (p *Ports) dial(ctx context.Context, caller belljar.Caller, sessionID string, port int) (*conn, error) {
	if err := belljar.CheckPort(port); err != nil {
		return nil, err
	}
	x, release, err := p.opts.Acquire(ctx, caller, sessionID)
	if err != nil {
		return nil, err
	}
	defer release()
	c := &conn{all: p, session: x, key: key{x.Session().ID, port}, caller: caller}
	if err := p.table.enter(c, p.opts.Limits.PerSession); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if c.Conn, err = x.Box().Agent.Connect(ctx, uint16(port)); err != nil {
		p.table.leave(c)
		return nil, p.fault(x, port, err)
	}
	p.opened(c)
	hooked := make(chan struct{})
	c.unhook = context.AfterFunc(x.Context(), func() {
		<-hooked
		_ = c.Abort() // never fails
	})
	close(hooked)
	return c, nil
}

// fault converts a failure of the agent for the caller.
func (p *Ports) fault(x Session, port int, err error) error {
	state := x.Session()
	var refused *wire.Error
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "the sandbox of this session cannot be connected to", Err: err,
			Details: map[string]any{"session_id": state.ID, "runtime": state.Runtime},
			Hint:    "it is older than this server, or of a runtime without this: create a new session",
		}
	case errors.As(err, &refused) && refused.Code == wire.CodeNotFound:
		return &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("no program listens on port %d", port),
			Details: map[string]any{"session_id": state.ID, "port": port},
			Hint:    "start it in the session first; it must listen on 127.0.0.1 or on all addresses",
		}
	case errors.Is(err, agent.ErrDisconnected), errors.Is(err, runtime.ErrGone):
		if !state.State.Ended() { // its end will be detected soon
			state.State = belljar.SessionCrashed
		}
		return p.opts.Ended(x.Context(), state)
	case errors.Is(err, context.DeadlineExceeded):
		return &belljar.Error{Code: belljar.CodeTimeout, Message: "the sandbox did not answer in time", Details: map[string]any{"session_id": state.ID}, Err: err}
	}
	return err
}
