package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
)

// errScopeTaken says that another session has the scope.
var errScopeTaken = errors.New("scope is taken")

// openSession returns the living session of a scope, or makes one. Of many at once one makes it and the others wait for
// that. What keeps it from being made, they hear too; but if its maker gave up, the next one tries.
func (s *Service) openSession(
	ctx context.Context, caller belljar.Caller, req belljar.SessionRequest,
) (opened belljar.Session, created bool, err error) {
	if versions := s.opts.Policy.SupportedSpecVersions; req.SpecVersion == "" && len(versions) > 0 {
		req.SpecVersion = slices.MaxFunc(versions, strings.Compare)
	}
	if req.BaseImage == "" {
		req.BaseImage = s.opts.DefaultImage
	}
	if req.Scope == (belljar.Scope{}) {
		return opened, false, fault.Refuse("scope", "", "scope is required to open a session")
	}
	// A request that is wrong is so whether or not the session is there already.
	if err := s.checkSession(req.SessionSpec); err != nil {
		return opened, false, err
	}
	key := req.Scope.String()
	if key == "" {
		opened, err = s.createSession(ctx, caller, req)
		return opened, err == nil, err
	}
	// A request that is repeated made the session the first time, if it did.
	if _, prior, err := s.claim(ctx, endpointSessions, caller, req.IdempotencyKey, req.SessionSpec); err != nil || prior != nil {
		if err == nil {
			opened, err = s.replaySession(ctx, caller, prior)
		}
		return opened, err == nil, err
	}
	for {
		if x := s.sessions.inScope(caller.ID, key); x != nil {
			opened, found, err := s.resumeSession(ctx, x)
			if err != nil || found {
				return opened, false, err
			}
			continue // it ended meanwhile
		}
		opened, err := s.createSession(ctx, caller, req)
		if errors.Is(err, errScopeTaken) && s.sessions.inScope(caller.ID, key) != nil {
			continue // somebody was faster
		}
		return opened, err == nil, err
	}
}

// resumeSession waits until a session that has a scope can be used. It reports false when its scope is free again.
func (s *Service) resumeSession(ctx context.Context, x *session) (state belljar.Session, found bool, err error) {
	select {
	case <-x.ready:
	case <-ctx.Done():
		return state, false, context.Cause(ctx)
	}
	x.mu.Lock()
	ended, fault := x.state.State.Ended(), x.fault
	if !ended {
		x.touch()
	}
	x.mu.Unlock()
	switch {
	case fault != nil && belljar.CodeOf(fault) != belljar.CodeCanceled:
		return state, false, fault
	case !ended:
		state = x.snapshot()
		s.recordSession(event.SessionResumed, x.caller, state, 0)
		return state, true, nil
	}
	return state, false, x.wait(ctx)
}

// wait waits until nothing is left of a session that ends.
func (x *session) wait(ctx context.Context) error {
	select {
	case <-x.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enterSession takes a session into the table, once the one before it in its scope is gone.
func (s *Service) enterSession(ctx context.Context, x *session) error {
	for {
		other, err := s.sessions.enter(x, s.opts.MaxSessions, s.opts.MaxNodeSessions)
		if other == nil && err == nil {
			if err = s.placeSession(ctx, x); err != nil {
				s.forget(x, err)
			}
		}
		if other == nil {
			return err
		}
		if !other.snapshot().State.Ended() {
			return scopeTaken(x.scope, other.id)
		}
		if err := other.wait(ctx); err != nil {
			return err
		}
	}
}

// taken says who has a session's scope on record, though nobody has it here: another daemon on the same store, or one
// whose end is not on record yet.
func (s *Service) taken(ctx context.Context, x *session) error {
	rows, _, err := s.opts.Store.Sessions().List(ctx, x.caller.ID, belljar.SessionQuery{KeyPrefix: x.scope, Limit: belljar.MaxPage})
	if err != nil {
		return fault.Record("look for the session of a scope", err)
	}
	id := ""
	for _, row := range rows {
		if row.Key == x.scope {
			id = row.ID
		}
	}
	return scopeTaken(x.scope, id)
}

func scopeTaken(scope, id string) error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("there is a session with scope %s", scope),
		Details: map[string]any{"session_id": id, "scope_key": scope},
		Hint:    "open the scope instead of making a session, or close the one that has it", Err: errScopeTaken,
	}
}
