package box

import (
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
)

// A side sandbox prepares the sandbox of a run or session before that is made: one of the service's own commands runs in it, with
// its own network. It is neither a run nor a session, so a process that finds it after a restart removes it.

// SideOrder is an order to make one side sandbox.
type SideOrder struct {
	Caller belljar.Caller
	// Placement is its placement and network. Its limits must be within the reservation of the sandbox that it prepares, as the
	// two never exist at the same time.
	Placement *placement.Placement
	Made      func(runtime.Sandbox) // receives the sandbox as soon as it exists; may be nil
	Egress    func(egress.Event)    // receives the events of its gate; may be nil
	Time      time.Duration         // timeout of the work
}

// ErrSideTime means that the work in a side sandbox exceeded its timeout.
var ErrSideTime = errors.New("the time for it is over")

// Side makes a sandbox within its startup timeout, runs work in it, and destroys it before it returns, however the work ends. It
// returns the report of the sandbox's network use; nil without a network. The work must end with its context, whose cause has the
// reason.
func (m *Maker) Side(ctx context.Context, o SideOrder, work func(ctx context.Context, b *Box) error) (*belljar.EgressReport, error) {
	id := belljar.NewID()
	m.sides.Store(id, nil)
	defer m.sides.Delete(id) // after its removal
	p := *o.Placement
	starting, started := context.WithTimeoutCause(ctx, clock.Seconds(p.Limits.StartupTimeoutSec), fault.ErrStartupTimeout)
	defer started()
	b, err := m.Make(starting, Order{
		ID: id, Caller: o.Caller, Placement: &p, OnImage: func(root runtime.Root) { p.Image = root },
		Made: func(s runtime.Sandbox) {
			if o.Made != nil {
				o.Made(s)
			}
		},
	})
	if b == nil {
		return nil, err
	}
	defer m.Destroy(id, b)
	watch := b.Network.Watch(func(e egress.Event, _ bool) {
		if o.Egress != nil {
			o.Egress(e)
		}
	})
	defer watch.End()
	if err == nil {
		err = b.Network.Pin(starting)
	}
	if err == nil {
		working, done := context.WithTimeoutCause(ctx, o.Time, ErrSideTime)
		defer done()
		if err = work(working, b); err != nil && working.Err() != nil {
			err = context.Cause(working)
		}
	} else if starting.Err() != nil {
		err = context.Cause(starting)
	}
	if errors.Is(err, agent.ErrDisconnected) || errors.Is(err, runtime.ErrGone) {
		if exit := ExitOf(ctx, b); exit != nil {
			err = &SideExitError{Exit: *exit}
		}
	}
	return watch.Report(), err
}

// SideExitError reports that a side sandbox ended during its work.
type SideExitError struct{ Exit runtime.Exit }

func (e *SideExitError) Error() string { return "the sandbox ended: " + e.Exit.String() }

// IsSide reports whether a sandbox is a side sandbox in use.
func (m *Maker) IsSide(id string) bool {
	_, is := m.sides.Load(id)
	return is
}

// Run runs a command to its end as the box's user, and returns its exit. print, which may be nil, receives its output.
func (b *Box) Run(ctx context.Context, e wire.Exec, print func(s wire.Stream, p []byte)) (wire.Exit, error) {
	e.ID, e.UID, e.GID, e.KillAll = belljar.NewID(), b.UID, b.GID, true
	proc, err := b.Exec(ctx, e, "")
	if err != nil {
		return wire.Exit{}, err
	}
	defer proc.Close()
	return proc.Output(ctx, func(_ int64, s wire.Stream, p []byte) error {
		if print != nil {
			print(s, p)
		}
		return nil
	})
}
