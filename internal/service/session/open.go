package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/idempotency"
)

// errScopeTaken means that another session has the scope, in the table or on record; errScopeInUse that it was in the table.
var (
	errScopeTaken = errors.New("scope is taken")
	errScopeInUse = fmt.Errorf("%w by a live session", errScopeTaken)
)

// Open returns the live session of a scope, or makes one. Of concurrent requests, one makes it and the others wait. If making
// it fails, all of them get the error. If the request that makes it is cancelled, the next one tries.
func (s *Sessions) Open(ctx context.Context, caller belljar.Caller, req belljar.SessionRequest) (opened belljar.Session, created bool, err error) {
	if versions := s.opts.Rules.Policy.SupportedSpecVersions; req.SpecVersion == "" && len(versions) > 0 {
		req.SpecVersion = slices.MaxFunc(versions, strings.Compare)
	}
	if req.BaseImage == "" && req.Template == "" {
		req.BaseImage = s.opts.DefaultImage
	}
	if req.Scope == (belljar.Scope{}) {
		return opened, false, fault.Refuse("scope", "", "scope is required to open a session")
	}
	// Refuse an invalid request whether or not the session exists.
	if err := s.check(req.SessionSpec); err != nil {
		return opened, false, err
	}
	key := req.Scope.String()
	if key == "" {
		opened, err = s.Create(ctx, caller, req)
		return opened, err == nil, err
	}
	// A repeated request that made the session also reports that it created it.
	_, prior, err := s.opts.Keys.Claim(ctx, idempotency.Sessions, caller, req.IdempotencyKey, req.SessionSpec)
	if err == nil && prior != nil {
		opened, err = s.replay(ctx, prior)
	}
	if err != nil && !errors.Is(err, errGivenUp) || err == nil && prior != nil {
		return opened, err == nil, err
	}
	for {
		if x := s.table.inScope(caller.ID, key); x != nil {
			opened, found, err := s.resume(ctx, caller, x)
			if err != nil || found {
				return opened, false, err
			}
			continue // it ended meanwhile
		}
		opened, err := s.Create(ctx, caller, req)
		if errors.Is(err, errScopeInUse) || errors.Is(err, errScopeTaken) && s.table.inScope(caller.ID, key) != nil {
			continue // a concurrent request was faster, and may have failed since
		}
		return opened, err == nil, err
	}
}

// resume waits until the session of a scope is usable. It returns false when its scope is free again.
func (s *Sessions) resume(ctx context.Context, caller belljar.Caller, x *Session) (state belljar.Session, found bool, err error) {
	if x.Approval.Check() != nil {
		return x.Snapshot(), true, nil
	}
	select {
	case <-x.ready:
	case <-ctx.Done():
		return state, false, context.Cause(ctx)
	}
	x.mu.Lock()
	ended, fault := x.state.State.Ended(), x.fault
	if !ended {
		x.life.touch(x.all.now())
	}
	x.mu.Unlock()
	switch {
	case fault != nil && belljar.CodeOf(fault) != belljar.CodeCanceled:
		return state, false, fault
	case !ended:
		state = x.Snapshot()
		s.record(event.SessionResumed, caller, state, 0)
		return state, true, nil
	}
	return state, false, x.wait(ctx)
}

// taken returns an error that names the session with x's scope on record but not in the table: it belongs to another server on
// the same store, or its end is not on record yet.
func (s *Sessions) taken(ctx context.Context, x *Session) error {
	rows, _, err := s.opts.Store.List(ctx, x.caller.ID, belljar.SessionQuery{KeyPrefix: x.scope, Limit: belljar.MaxPage})
	if err != nil {
		return fault.Record("look for the session of a scope", err)
	}
	id := ""
	for _, row := range rows {
		if row.Key == x.scope {
			id = row.ID
		}
	}
	return scopeTaken(x.scope, id, errScopeTaken)
}

func scopeTaken(scope, id string, why error) error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("a session with scope %s exists", scope),
		Details: map[string]any{"session_id": id, "scope_key": scope},
		Hint:    "open the scope instead of making a session, or close the one that has it", Err: why,
	}
}
