package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// sweepNow makes one sweep and logs its errors.
func (s *Service) sweepNow() {
	if err := s.Sweep(s.work.Closing()); err != nil && s.work.Closing().Err() == nil {
		s.log.Error("sweep failed", "err", err)
	}
}

// sweepEvery is how often the service sweeps, unless [Options.Keep] is shorter.
const sweepEvery = 15 * time.Minute

// sweepEvery is how often the service sweeps.
func (o *Options) sweepEvery() time.Duration { return min(sweepEvery, cmp.Or(o.Keep, sweepEvery)) }

// retention describes when logs are deleted, for users whose quota is used up.
func (o *Options) retention() string {
	if o.Keep > 0 {
		return fmt.Sprintf("wait: logs are deleted %v minutes after their runs end", o.Keep.Minutes())
	}
	return o.Policy.Retention(o.RowDays)
}

// Sweep removes what has been kept for its time: the logs and artifacts of runs after the policy's ArtifactTTLHours, the records of
// runs, sessions, API keys that have ended, and days' usage after RowDays (all of these after Keep, if that is set), idempotency keys, unused
// images, snapshots that have expired, what former builds of templates have left, and now and then bytes that belong to no run. It does what
// it can and returns everything that failed. After [Service.Recover] the service calls it every [sweepEvery], or [Options.Keep].
func (s *Service) Sweep(ctx context.Context) error {
	now := s.clock.Now()
	past := now.AddDate(0, 0, -s.opts.RowDays)
	if s.opts.Keep > 0 {
		past = now.Add(-s.opts.Keep)
	}
	var bytesBefore time.Time
	if hours := s.opts.Policy.ArtifactTTLHours; hours > 0 {
		bytesBefore = now.Add(-time.Duration(hours) * time.Hour)
	}
	return errors.Join(
		s.runs.Sweep(ctx, bytesBefore, past), s.sessions.Sweep(ctx, past), sweepUsers(ctx, s.opts.Store, past), s.keys.Sweep(ctx), s.images.Sweep(ctx), s.desk.Sweep(ctx, past),
		s.snapshots.Sweep(ctx, now), s.templates.Sweep(ctx, false),
	)
}

// sweepUsers removes daily usage from before t, and API keys that ended before t.
func sweepUsers(ctx context.Context, on store.Store, t time.Time) error {
	_, err := on.Users().DeleteBefore(ctx, t)
	if err == nil {
		_, err = on.Tokens().DeleteEnded(ctx, t)
	}
	if err != nil {
		return fmt.Errorf("sweep usage and API keys: %w", err)
	}
	return nil
}

// nextSweep makes a function that returns when a user's oldest log is deleted, at the latest; false if that is not known.
func nextSweep(o Options, now func() time.Time) func(context.Context, string) (time.Time, bool) {
	kept := cmp.Or(o.Keep, time.Duration(o.Policy.ArtifactTTLHours)*time.Hour, time.Duration(o.RowDays)*24*time.Hour) + o.sweepEvery()
	return func(ctx context.Context, user string) (time.Time, bool) {
		rows, _, err := o.Store.Runs().List(ctx, belljar.RunQuery{
			UserID: user, FinishedFrom: now().Add(-kept), Sort: "finished_at:asc", Limit: 1,
		})
		if err != nil || len(rows) == 0 {
			return time.Time{}, false
		}
		return rows[0].FinishedAt.Add(kept), true
	}
}
