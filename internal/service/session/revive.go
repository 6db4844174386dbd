package session

import (
	"context"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/recovery"
	"github.com/belljar/belljar/internal/store"
)

// lapsed reports whether a session of a previous process expired before this process began, although the record of its expiry
// may lag ([Sessions.lag]). The command of a run is a use that no record shows.
func (s *Recovery) lapsed(row store.Session) bool {
	now := s.sessions.now()
	if retained(row) {
		return !now.Before(row.ExpiresAt)
	}
	t := s.sessions.termsOf(row.Spec)
	return !now.Before(begun(row).Add(t.lifetime)) || !now.Before(row.ExpiresAt.Add(s.sessions.lag(t.ttl)))
}

// revive adds a session of a previous process with a live sandbox to the table, in its recorded state. [Session.begin] then
// makes it usable.
func (s *Recovery) revive(ctx context.Context, row store.Session, p *placement.Placement) (*Session, error) {
	var err error
	if row.Spec.Secrets, p.Broker, err = s.sessions.opts.Secrets.Open(row.ID, row.Secrets); err != nil {
		return nil, fmt.Errorf("its secrets on record, which its output must not show: %w", err)
	}
	now := s.sessions.now()
	t := s.sessions.termsOf(row.Spec)
	x := s.sessions.bare(row.ID, recovery.Caller(row.UserID, row.Operator), row.Spec, p, t)
	x.state, x.scope, x.sealed = row.Session, row.Key, row.Secrets
	x.state.Runs = s.runsOf(ctx, row)
	x.Network.warn(p.Egress)
	x.life.used, x.life.alive = earlier(now, row.ExpiresAt.Add(s.sessions.lag(t.ttl)-t.ttl)), now
	x.life.ends, x.life.recorded = begun(row).Add(t.lifetime), row.ExpiresAt
	if retained(row) {
		x.life.retained, x.life.ends = true, row.ExpiresAt
	}
	s.sessions.table.adopt(x)
	s.sessions.record(event.SessionRevived, x.caller, x.Snapshot(), now.Sub(row.CreatedAt))
	return x, nil
}

// runsOf returns how many runs a recorded session has had. Its record may lag.
func (s *Recovery) runsOf(ctx context.Context, row store.Session) int {
	runs, err := s.sessions.opts.Runs.CountIn(ctx, row.ID)
	if err != nil { // the number on record is better than the loss of the session
		s.sessions.opts.Log.Error("runs of a former process cannot be counted", "session_id", row.ID, "err", err)
	}
	return max(runs, row.Runs)
}

// begun returns when a recorded session began: when it was made, or approved.
func begun(row store.Session) time.Time {
	if a := row.Approval; a != nil && a.State == belljar.ApprovalApproved && a.DecidedAt != nil {
		return *a.DecidedAt
	}
	return row.CreatedAt
}

// retained reports whether a recorded session was closed and is retained: its scope was freed.
func retained(row store.Session) bool {
	return row.Key == "" && row.Spec.Scope.Namespace != ""
}
