package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/store"
)

// sweepAtOnce is how many runs are swept in one step.
const sweepAtOnce = 100

// orphanAge is how old bytes must be before nobody is expected to put their run on record any more.
const orphanAge = time.Hour

// sweeps is when the next sweep is due. The zero value waits for none.
type sweeps struct {
	mu     sync.Mutex
	ended  bool
	cancel func() bool
}

// next has f called later, unless there are no more sweeps.
func (w *sweeps) next(c Clock, d time.Duration, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.cancel = c.AfterFunc(d, f)
	}
}

// begin reports whether a sweep that is due may begin; work then counts it.
func (w *sweeps) begin(work *lifecycle.Group) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		work.Add()
	}
	return !w.ended
}

// stop ends them. One that has begun goes on.
func (w *sweeps) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.cancel != nil {
		w.cancel()
	}
}

// sweepLater sweeps by itself from now on.
func (s *Service) sweepLater() {
	s.sweeps.next(s.clock, s.opts.SweepEvery, func() {
		if !s.sweeps.begin(&s.work) {
			return
		}
		defer s.work.Done()
		if err := s.Sweep(s.work.Closing()); err != nil && s.work.Closing().Err() == nil {
			s.log.Error("sweep failed", "err", err)
		}
		s.sweepLater()
	})
}

// Sweep takes away what has been kept for its time: the logs and artifacts of runs after the policy's
// ArtifactTTLHours, their rows and those of sessions after RowDays, idempotency keys, images that nobody uses, and bytes that belong to no run. It
// does what it can and returns everything that went wrong. A daemon that was told to [Service.Recover] sweeps by itself.
func (s *Service) Sweep(ctx context.Context) error {
	now := s.clock.Now()
	var errs []error
	if hours := s.opts.Policy.ArtifactTTLHours; hours > 0 {
		errs = append(errs, s.sweepRuns(ctx, now.Add(-time.Duration(hours)*time.Hour), true))
	}
	past := now.AddDate(0, 0, -s.opts.RowDays)
	errs = append(errs, s.sweepRuns(ctx, past, false))
	if _, err := s.opts.Store.Sessions().DeleteEnded(ctx, past); err != nil {
		errs = append(errs, fmt.Errorf("sweep sessions: %w", err))
	}
	if _, err := s.opts.Store.Keys().DeleteBefore(ctx, now.Add(-s.opts.IdempotencyTTL)); err != nil {
		errs = append(errs, fmt.Errorf("sweep idempotency keys: %w", err))
	}
	errs = append(errs, s.images.Sweep(ctx))
	return errors.Join(append(errs, s.sweepOrphans(ctx, now.Add(-orphanAge)))...)
}

// sweepRuns takes away the bytes of the runs that finished before t, or all of them.
func (s *Service) sweepRuns(ctx context.Context, t time.Time, bytes bool) error {
	for {
		rows, err := s.opts.Store.Runs().Sweepable(ctx, t, bytes, sweepAtOnce)
		if err != nil {
			return fmt.Errorf("sweep runs: %w", err)
		}
		var ids []string
		var errs []error
		for _, row := range rows {
			if err := s.sweepBytes(ctx, row); err != nil {
				errs = append(errs, err)
				continue
			}
			ids = append(ids, row.ID)
		}
		if len(ids) > 0 {
			if err = s.opts.Store.Runs().Swept(ctx, ids...); err == nil {
				s.giveBack(rows, ids)
			}
			if err == nil && !bytes {
				err = s.opts.Store.Runs().Delete(ctx, ids...)
			}
		}
		// Those that failed come again: with the next sweep, not now.
		if err = errors.Join(append(errs, err)...); err != nil || len(rows) < sweepAtOnce {
			return err
		}
	}
}

// giveBack has the quotas of their owners count what was swept no longer.
func (s *Service) giveBack(rows []store.Run, swept []string) {
	for _, row := range rows {
		if slices.Contains(swept, row.ID) {
			s.accounts.ArtifactsAdded(row.UserID, -row.KeptBytes())
			s.accounts.LogAdded(row.UserID, -row.KeptLog())
		}
	}
}

// sweepBytes removes a run's log and artifacts.
func (s *Service) sweepBytes(ctx context.Context, row store.Run) error {
	var errs []error
	if !row.LogGone {
		errs = append(errs, s.opts.Logs.Remove(row.ID))
	}
	if !row.ArtifactsGone {
		errs = append(errs, s.opts.Blobs.Delete(ctx, row.UserID, row.ID))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep run %s: %w", row.ID, err)
	}
	return nil
}

// orphanage is a logbook that can tell which logs are nobody's.
type orphanage interface {
	// Orphans returns the logs begun before t that known denies.
	Orphans(t time.Time, known func(id string) bool) ([]string, error)
}

// sweepOrphans removes bytes from before t that no run on record owns.
func (s *Service) sweepOrphans(ctx context.Context, t time.Time) error {
	known := func(id string) bool {
		if s.under(id) != nil {
			return true
		}
		_, err := s.opts.Store.Runs().Get(ctx, id)
		return !errors.Is(err, store.ErrNotFound) // what cannot be found out stays
	}
	var errs []error
	if book, ok := s.opts.Logs.(orphanage); ok {
		ids, err := book.Orphans(t, known)
		errs = append(errs, err)
		for _, id := range ids {
			errs = append(errs, s.opts.Logs.Remove(id))
		}
	}
	keys, err := s.opts.Blobs.Orphans(ctx, t, known)
	errs = append(errs, err)
	for _, k := range keys {
		errs = append(errs, s.opts.Blobs.Delete(ctx, k.UserID, k.RunID))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep what is nobody's: %w", err)
	}
	return nil
}
