package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/session"
)

// sessions is the sessions of the service, as one caller sees them.
type sessions struct{ view }

var _ belljar.Sessions = sessions{}

// Create makes a session and its sandbox.
func (v sessions) Create(ctx context.Context, req belljar.SessionRequest) (belljar.Session, error) {
	made, err := v.service.sessions.Create(ctx, v.caller, req)
	return orRefused(v.view, "make a session", made, err)
}

// Get returns a session in its current state.
func (v sessions) Get(ctx context.Context, id string) (belljar.Session, error) {
	x, row, err := v.service.findSession(ctx, v.caller, id)
	switch {
	case err != nil:
		return belljar.Session{}, err
	case x != nil:
		return x.Snapshot(), nil
	}
	return row.Session, nil
}

// List returns the caller's sessions. Live ones have their current state.
func (v sessions) List(ctx context.Context, q belljar.SessionQuery) (belljar.SessionPage, error) {
	page := belljar.SessionPage{Items: []belljar.Session{}}
	if err := checkPage(&q.Limit, q.Offset); err != nil {
		return page, err
	}
	if err := q.Validate(); err != nil {
		return page, err
	}
	return v.service.sessions.List(ctx, v.caller.ID, q)
}

// Upload puts files into a session's workspace.
func (v sessions) Upload(ctx context.Context, id string, u belljar.Upload) (belljar.UploadResult, error) {
	result, err := v.service.files.Upload(ctx, v.caller, id, u)
	if err != nil {
		return belljar.UploadResult{}, fault.As("upload", err)
	}
	return result, nil
}

// Delete ends a session and waits until its sandbox is removed.
func (v sessions) Delete(ctx context.Context, id string) error {
	x, _, err := v.service.findSession(ctx, v.caller, id)
	if x == nil {
		return err
	}
	return x.Delete(ctx, v.caller)
}

// Hibernate saves a session and releases its sandbox until the next use.
func (v sessions) Hibernate(ctx context.Context, id string, spec belljar.HibernateSpec) (belljar.Session, error) {
	x, err := v.service.livingSession(v.caller, id)
	if err != nil {
		return belljar.Session{}, err
	}
	state, err := session.Hibernate(ctx, x, v.caller, spec)
	return orRefused(v.view, "hibernate a session", state, err)
}

// Network returns a session's network policy.
func (v sessions) Network(_ context.Context, id string) (belljar.NetworkSpec, error) {
	x, err := v.service.livingSession(v.caller, id)
	if err != nil {
		return belljar.NetworkSpec{}, err
	}
	return x.Network.Spec(), nil
}

// SetNetwork changes a session's network policy.
func (v sessions) SetNetwork(ctx context.Context, id string, spec belljar.NetworkSpec) (belljar.NetworkSpec, error) {
	x, err := v.service.livingSession(v.caller, id)
	if err != nil {
		return belljar.NetworkSpec{}, err
	}
	set, err := x.Network.Set(ctx, v.caller, spec)
	return orRefused(v.view, "change the network of a session", set, err)
}

// Open returns the live session of a scope, or makes one.
func (v sessions) Open(ctx context.Context, req belljar.SessionRequest) (belljar.Session, bool, error) {
	opened, created, err := v.service.sessions.Open(ctx, v.caller, req)
	if err != nil {
		return belljar.Session{}, false, v.service.refused(v.caller, "open a session", err)
	}
	return opened, created, nil
}

// CloseAll ends the caller's sessions by their scope.
func (v sessions) CloseAll(ctx context.Context, req belljar.CloseRequest) ([]string, error) {
	closed, err := v.service.sessions.CloseScope(ctx, v.caller, req)
	if err != nil {
		return nil, v.service.refused(v.caller, "close sessions", err)
	}
	return closed, nil
}
