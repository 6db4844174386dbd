package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/store"
)

// sweepAtOnce is how many runs are swept in one step.
const sweepAtOnce = 100

// orphanAge is the minimum age of orphaned bytes: younger bytes may belong to a run that is not on record yet.
const orphanAge = time.Hour

// orphansEvery is the interval of the search for orphaned bytes, which are rare. The search looks up each log and each run's artifacts in the
// store, which takes minutes for millions of runs.
const orphansEvery = 6 * time.Hour

// Sweep removes the bytes of runs that finished before bytesBefore (if that is not zero), the records of runs that finished before rowsBefore,
// and occasionally orphaned bytes.
func (s *Runs) Sweep(ctx context.Context, bytesBefore, rowsBefore time.Time) error {
	var errs []error
	if !bytesBefore.IsZero() {
		errs = append(errs, s.sweep(ctx, bytesBefore, true))
	}
	return errors.Join(append(errs, s.sweep(ctx, rowsBefore, false), s.sweepOrphans(ctx, s.runner.clock.Now()))...)
}

// sweep removes the bytes of the runs that finished before t, or the runs. It stops after a step in which some cannot be removed. The next
// sweep continues after those, and retries them after the last.
func (s *Runs) sweep(ctx context.Context, t time.Time, onlyBytes bool) error {
	var on store.RunSweeper = s.runner.store
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	stuck := s.stuck[onlyBytes]
	for {
		most := sweepAtOnce + len(stuck)
		rows, err := on.Sweepable(ctx, t, onlyBytes, most)
		if err != nil {
			return fmt.Errorf("sweep runs: %w", err)
		}
		var ids []string
		var errs []error
		for _, row := range rows {
			if stuck[row.ID] {
				continue
			}
			if err := s.sweepBytes(ctx, row); err != nil {
				errs = append(errs, err)
				stuck[row.ID] = true
				continue
			}
			ids = append(ids, row.ID)
		}
		if len(ids) > 0 {
			if err = on.Swept(ctx, ids...); err == nil {
				s.release(rows, ids)
			}
			if err == nil && !onlyBytes {
				err = on.Delete(ctx, ids...)
			}
		}
		if len(rows) < most {
			clear(stuck)
		}
		if err = errors.Join(append(errs, err)...); err != nil || len(rows) < most {
			return err
		}
	}
}

// release subtracts swept bytes from their owners' quotas.
func (s *Runs) release(rows []store.Run, swept []string) {
	for _, row := range rows {
		if slices.Contains(swept, row.ID) {
			s.runner.accounts.ArtifactsAdded(row.UserID, -row.KeptBytes())
			s.runner.accounts.LogAdded(row.UserID, -row.KeptLog())
		}
	}
}

// sweepBytes removes a run's log and artifacts.
func (s *Runs) sweepBytes(ctx context.Context, row store.Run) error {
	var errs []error
	if !row.LogGone {
		errs = append(errs, s.runner.logs.Remove(row.ID))
	}
	if !row.ArtifactsGone {
		errs = append(errs, s.runner.blobs.Delete(ctx, row.UserID, row.ID))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep run %s: %w", row.ID, err)
	}
	return nil
}

// orphanage is implemented by a logbook that can find orphaned logs.
type orphanage interface {
	// Orphans returns the logs begun before t for which known returns false.
	Orphans(t time.Time, known func(id string) bool) ([]string, error)
}

// sweepOrphans removes old bytes without a run on record, if that is due.
func (s *Runs) sweepOrphans(ctx context.Context, now time.Time) error {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	if now.Sub(s.orphans) < orphansEvery {
		return nil
	}
	s.orphans = now // even if some cannot be removed: the next search retries
	t := now.Add(-orphanAge)
	known := func(id string) bool {
		if s.Get(id) != nil {
			return true
		}
		_, err := s.runner.store.Get(ctx, id)
		return !errors.Is(err, store.ErrNotFound) // in doubt, keep the bytes
	}
	var errs []error
	if book, ok := s.runner.logs.(orphanage); ok {
		ids, err := book.Orphans(t, known)
		errs = append(errs, err)
		for _, id := range ids {
			errs = append(errs, s.runner.logs.Remove(id))
		}
	}
	keys, err := s.runner.blobs.Orphans(ctx, t, known)
	errs = append(errs, err)
	for _, k := range keys {
		if snapshot.IsBlob(k.RunID) {
			errs = append(errs, s.opts.Snapshots.SweepBlob(ctx, k))
		} else {
			errs = append(errs, s.runner.blobs.Delete(ctx, k.UserID, k.RunID))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep orphaned bytes: %w", err)
	}
	return nil
}
