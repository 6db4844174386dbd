package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/store"
)

// lapsed reports whether the time of a session of a former process was over before this one began, though the record of
// its expiry may be behind ([Service.lag]). One in which a command still runs has a use that no record shows.
func (s *Service) lapsed(row store.Session) bool {
	now := s.now()
	if retained(row) {
		return !now.Before(row.ExpiresAt)
	}
	t := s.termsOf(row.Spec)
	return !now.Before(row.CreatedAt.Add(t.lifetime)) || !now.Before(row.ExpiresAt.Add(s.lag(t.ttl)))
}

// revive returns a session of a former process whose sandbox lives, as it is on record, and takes it into the table.
// [session.begin] then makes it usable.
func (s *Service) revive(ctx context.Context, row store.Session, p *placement.Placement) (*session, error) {
	runs, err := s.runsOf(ctx, row)
	if err != nil {
		return nil, err
	}
	now := s.now()
	t := s.termsOf(row.Spec)
	x := s.bareSession(row.ID, belljar.Caller{ID: row.UserID, Role: belljar.RoleUser, Source: "recovery"}, row.Spec, p, t)
	x.state, x.scope = row.Session, row.Key
	x.state.Runs = runs
	x.life = lifespan{
		used:    earlier(now, row.ExpiresAt.Add(s.lag(t.ttl)-t.ttl)),
		stirred: now,
		ends:    row.CreatedAt.Add(t.lifetime), recorded: row.ExpiresAt,
	}
	if retained(row) {
		x.life.retained, x.life.ends = true, row.ExpiresAt
	}
	s.sessions.keep(x)
	s.recordSession(event.SessionRevived, x.caller, x.snapshot(), now.Sub(row.CreatedAt))
	return x, nil
}

// runsOf is how many runs were started in a session of a former process; the session's own record is behind.
func (s *Service) runsOf(ctx context.Context, row store.Session) (int, error) {
	_, total, err := s.opts.Store.Runs().List(ctx, belljar.RunQuery{SessionID: row.ID, Limit: 1})
	if err != nil {
		return 0, fault.Record("count the runs of session "+row.ID, err)
	}
	return max(total, row.Runs), nil
}

// retained reports whether a session on record was closed and is kept to be looked at: it has given up its scope.
func retained(row store.Session) bool { return row.Key == "" && row.Spec.Scope.Namespace != "" }
