package run

import (
	"context"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/session"
)

var _ session.Runs = (*Runs)(nil)

// ActiveIn reports whether a session has live runs, queued ones included, and whether one is quiet although it is not idle ([session.Runs]).
func (s *Runs) ActiveIn(id string) (active, quiet bool) {
	list := s.in(id)
	return len(list) > 0, slices.ContainsFunc(list, func(r *Run) bool {
		a := r.Snapshot().Approval
		return r.muted.Load() || a != nil && a.State == belljar.ApprovalPending
	})
}

// StopIn stops the runs of a session.
func (s *Runs) StopIn(id string, why error) {
	for _, r := range s.in(id) {
		r.stop(why)
	}
}

// StopContext cancels the runs of a context of a session.
func (s *Runs) StopContext(id, name string) {
	for _, r := range s.in(id) {
		if c := r.Snapshot().Context; c != nil && c.Name == name {
			r.stop(fault.ErrCanceled)
		}
	}
}

// CountIn returns how many runs a session has had.
func (s *Runs) CountIn(ctx context.Context, id string) (int, error) {
	_, total, err := s.runner.store.List(ctx, belljar.RunQuery{SessionID: id, Limit: 1})
	if err != nil {
		return 0, fault.Record("count the runs of session "+id, err)
	}
	return total, nil
}

// Busy returns the ids of the sessions with unfinished runs on record: runs of a previous process, before they are recovered.
func (s *Runs) Busy(ctx context.Context) (map[string]bool, error) {
	rows, err := s.runner.store.Unfinished(ctx)
	if err != nil {
		return nil, fault.Record("look for unfinished runs", err)
	}
	busy := map[string]bool{}
	for _, row := range rows {
		busy[row.SessionID] = true
	}
	return busy, nil
}

// Orphaned reports whether a command at an agent belongs to a run that is not live. A build always is orphaned: a run that was being built
// is lost.
func (s *Runs) Orphaned(command string) bool {
	id := strings.TrimPrefix(command, buildPrefix)
	return belljar.ValidID(id) && (id != command || s.Get(id) == nil)
}

// in returns the live runs of a session.
func (s *Runs) in(id string) []*Run {
	return slices.DeleteFunc(s.all(), func(r *Run) bool { return !r.belongsTo(id) })
}
