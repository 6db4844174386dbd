package remote

import (
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/upstream"
	"github.com/belljar/belljar/internal/workspace"
)

// Machine is another machine that holds the sandboxes of an engine in this process.
type Machine interface {
	Name() string // of its runtime
	Ready(ctx context.Context) error
	Circuit() string
}

// Sprite provides the sessions of an engine in this process whose sandboxes are on another machine.
type Sprite struct {
	Engine  belljar.Engine
	Machine Machine
	Root    string // folder of the files there

	known workspace.Known
}

var _ workspace.Source = (*Sprite)(nil)

// Mode returns sandbox: clients see no difference.
func (*Sprite) Mode() string { return "sandbox" }

// Open returns a workspace of a caller. By configuring the machine, the operator has accepted the limits that it does
// not enforce.
func (s *Sprite) Open(ctx context.Context, caller belljar.Caller, session string) (workspace.Workspace, error) {
	w, err := s.open(ctx, caller, session)
	if err == nil {
		w.Engine = steady{s.Engine.As(caller)}
		if session == "" || w.Runtime == s.Machine.Name() { // other sessions of the caller are on this machine
			w.Root = s.Root
		}
	}
	return w, err
}

func (s *Sprite) open(ctx context.Context, caller belljar.Caller, session string) (workspace.Workspace, error) {
	if session != "" {
		return workspace.Open(ctx, s.Engine.As(caller), session, belljar.SessionSpec{})
	}
	caller.Role = belljar.RoleAdmin
	spec := workspace.Spec("host")
	spec.Runtime, spec.AllowWeak = s.Machine.Name(), []string{"network", "pids", "memory", "cpu", "disk"}
	spec.Scope.ID = "workspace-" + spec.Runtime
	return s.known.Open(ctx, s.Engine.As(caller), caller.ID, spec)
}

// Ready returns the state of the machine.
func (s *Sprite) Ready(ctx context.Context) workspace.Readiness {
	return readiness(ctx, s.Machine.Ready, s.Machine.Circuit)
}

// readyTime limits the wait for the state. The check continues, and a later call gets its result.
const readyTime = 800 * time.Millisecond

// readiness describes a check without any data from its request or response.
func readiness(ctx context.Context, check func(context.Context) error, circuit func() string) workspace.Readiness {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	err := check(ctx)
	r := workspace.Readiness{State: "ready", Circuit: circuit()}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		r.State = "degraded"
	case err != nil:
		r.State, r.Reason = "down", string(upstream.ReasonOf(err))
		if r.Reason == "" {
			r.Reason = string(upstream.Unreachable)
		}
	case r.Circuit != upstream.Closed:
		r.State = "degraded"
	}
	return r
}
