package service

import (
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

// Sweep removes expired data: the logs and artifacts of runs after the policy's ArtifactTTLHours; after RowDays the records of ended runs, sessions
// and API keys, and daily usage; idempotency keys, unused images, expired snapshots, leftovers of earlier template builds, and occasionally bytes
// that belong to no run. It continues after errors and returns all of them. After [Service.Recover] the service calls it every [Options.SweepEvery].
func (s *Service) Sweep(ctx context.Context) error {
	now := s.clock.Now()
	past := now.AddDate(0, 0, -s.opts.RowDays)
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
	kept := time.Duration(o.Policy.ArtifactTTLHours) * time.Hour
	if kept == 0 {
		kept = time.Duration(o.RowDays) * 24 * time.Hour
	}
	kept += o.SweepEvery
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
