package service

import (
	"context"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/run"
	"github.com/belljar/belljar/internal/service/session"
	"github.com/belljar/belljar/internal/store"
)

// findRun returns a run that the caller may see: the live run, or else its record.
func (s *Service) findRun(ctx context.Context, caller belljar.Caller, id string) (*run.Run, store.Run, error) {
	r, row, err := s.runs.Find(ctx, id)
	owner := row.UserID
	if r != nil {
		owner = r.Owner()
	}
	if err == nil && !caller.Sees(owner) {
		return nil, store.Run{}, run.NotFound(id)
	}
	return r, row, err
}

// liveRun returns a live run that the caller may see. If it has ended, or this server does not have it, the error is [belljar.CodeConflict].
func (s *Service) liveRun(ctx context.Context, caller belljar.Caller, id string) (*run.Run, error) {
	r, row, err := s.findRun(ctx, caller, id)
	if err == nil && r == nil {
		err = notLive(row.Run)
	}
	return r, err
}

// notLive returns the error for a run that is not live in this process.
func notLive(r belljar.Run) error {
	e := &belljar.Error{Code: belljar.CodeConflict, Message: fmt.Sprintf("run %s has ended", r.ID), Details: map[string]any{"run_id": r.ID}}
	if !r.Phase.Terminal() {
		e.Message = fmt.Sprintf("run %s is %s on record, but not in this server", r.ID, r.Phase)
		e.Hint = "ask the server that started it; if that is this one, the run was lost, and its end will be recorded"
	}
	return e
}

// findSession returns a session that the caller may see: the live session, or else its record.
func (s *Service) findSession(ctx context.Context, caller belljar.Caller, id string) (*session.Session, store.Session, error) {
	x, row, err := s.sessions.Find(ctx, id)
	owner := row.UserID
	if x != nil {
		owner = x.Owner()
	}
	if err == nil && !caller.Sees(owner) {
		return nil, store.Session{}, session.NotFound(id)
	}
	return x, row, err
}

// unended returns a session that the caller may see, without a use of it. If it has ended, the error is [belljar.CodeConflict].
func unended(s *Service, caller belljar.Caller, id string) (*session.Session, error) {
	x, row, err := s.findSession(context.Background(), caller, id)
	if err != nil {
		return nil, err
	}
	state := row.Session
	if x != nil {
		state = x.Snapshot()
	}
	if state.State.Ended() {
		return nil, session.Unusable(state)
	}
	return x, nil
}

// livingSession is unended for a session that can be used now. If it has ended, the error is [belljar.CodeConflict].
func (s *Service) livingSession(caller belljar.Caller, id string) (*session.Session, error) {
	x, err := unended(s, caller, id)
	if err != nil {
		return nil, err
	}
	if err := x.Approval.Check(); err != nil {
		return x, err
	}
	return x, session.CheckRuntime(x)
}
