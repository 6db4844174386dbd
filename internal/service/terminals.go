package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// terminals is the terminals in sessions as one caller sees them.
type terminals struct{ view }

var _ belljar.Terminals = terminals{}

// Open starts a terminal that nobody watches yet.
func (v terminals) Open(ctx context.Context, sessionID string, spec belljar.TerminalSpec) (belljar.Terminal, error) {
	t, err := v.service.openTerminal(ctx, v.caller, sessionID, spec)
	if err != nil {
		v.service.denied(v.caller, err)
		return belljar.Terminal{}, fault.As("open a terminal", err)
	}
	return t.snapshot(), nil
}

// Get returns a terminal as it stands.
func (v terminals) Get(_ context.Context, id string) (belljar.Terminal, error) {
	t, err := v.find(id)
	if err != nil {
		return belljar.Terminal{}, err
	}
	return t.snapshot(), nil
}

// List returns the terminals of a session. One that has ended has none.
func (v terminals) List(ctx context.Context, sessionID string) ([]belljar.Terminal, error) {
	x, _, err := v.service.findSession(ctx, v.caller, sessionID)
	if err != nil {
		return nil, err
	}
	list := []belljar.Terminal{}
	if x == nil {
		return list, nil
	}
	for _, t := range v.service.terminals.in(x.id) {
		if !t.closed() {
			list = append(list, t.snapshot())
		}
	}
	return list, nil
}

// Attach begins to follow a terminal.
func (v terminals) Attach(_ context.Context, id string) (belljar.Attachment, error) {
	t, err := v.find(id)
	if err != nil {
		return nil, err
	}
	a, err := t.attach()
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Close ends a terminal and waits until its program is gone.
func (v terminals) Close(ctx context.Context, id string) error {
	t, err := v.find(id)
	if err != nil {
		return err
	}
	t.end(closedByCaller)
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find returns a terminal that the caller may see.
func (v terminals) find(id string) (*terminal, error) {
	t := v.service.terminals.get(id)
	if t == nil || !v.caller.Sees(t.session.caller.ID) || t.closed() {
		return nil, noTerminal(id)
	}
	return t, nil
}
