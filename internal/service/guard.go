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

// liveRun returns a live run that the caller may see. If it has ended, the error is [belljar.CodeConflict].
func (s *Service) liveRun(ctx context.Context, caller belljar.Caller, id string) (*run.Run, error) {
	r, _, err := s.findRun(ctx, caller, id)
	if err == nil && r == nil {
		err = &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("run %s has ended", id), Details: map[string]any{"run_id": id},
		}
	}
	return r, err
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
