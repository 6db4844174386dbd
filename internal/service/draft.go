package service

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// A run in a session whose caller waits for its end begins as a draft: it is in memory, its log too, and nobody has been
// told its id. Most are over in a moment, and go on record then with one write each of log and row. A draft that takes
// longer than draftFor, or is looked for, goes on record as it is and is a run like any other. One that the process takes
// with it has never been: its caller had no answer.

// draftFor is how long a run may stay a draft.
const draftFor = 200 * time.Millisecond

// shortLog is how many bytes a log may have to go on record with its run: making a file costs more than writing it.
const shortLog = 4 << 10

// errDraft says that a run has ended but is not on record.
var errDraft = errors.New("run is not on record")

// newLog begins the log of a run.
func (s *recorder) newLog(r *run) (logbook.Log, error) {
	if book, ok := s.logs.(logbook.Drafter); ok && r.draft {
		return book.Draft(r.id)
	}
	return s.logs.Create(r.id)
}

// shelve ends the log of a draft that has ended: into its row if it is short, else into a file.
func (s *recorder) shelve(r *run, row *store.Run) {
	if log, ok := r.log.(logbook.Draft); ok {
		if frames, taken := log.Take(shortLog); taken {
			r.short = frames
			if err := row.SetLog(frames); err != nil {
				s.log.Error("log could not be put on record", "run_id", r.id, "err", err)
			}
			row.LogBytes = int64(len(row.Log))
			return
		}
	}
	s.seal(r.id, r.log)
}

// draw lets the time of a draft begin.
func (s *recorder) draw(r *run) {
	r.writing.Lock()
	defer r.writing.Unlock()
	s.redraw(r, draftFor)
}

// redraw puts a draft on record after a time. The caller holds r.writing.
func (s *recorder) redraw(r *run, d time.Duration) {
	r.undraw = s.clock.AfterFunc(d, func() {
		if err := s.enlist(r); err != nil && !errors.Is(err, errDraft) {
			s.log.Warn("run could not be put on record, trying on", "run_id", r.id, "err", err)
		}
	})
}

// enlist puts a run that is a draft on record, as it is. [errDraft] if it has ended and is about to be there.
func (s *recorder) enlist(r *run) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	return s.enlistNow(r)
}

// enlistNow is enlist for a caller who holds r.writing.
func (s *recorder) enlistNow(r *run) error {
	switch {
	case !r.draft:
		return nil
	case r.over:
		return errDraft
	}
	r.undraw()
	var err error
	if log, ok := r.log.(logbook.Draft); ok {
		err = log.Keep()
	}
	if err == nil {
		_, err = s.store.Insert(context.Background(), s.row(r), nil)
	}
	if err != nil {
		s.redraw(r, noteAfter)
		return fault.Record("put the run on record", err)
	}
	r.draft = false
	s.beatOn(r)
	return nil
}

// recordDelay is how long the answer to a caller waits for a run that has ended to be on record.
const recordDelay = 2 * time.Second

// Finish starts a run and waits for its end: see [belljar.Finisher].
func (v runs) Finish(ctx context.Context, req belljar.RunRequest, wait time.Duration) (belljar.Run, *belljar.Output, error) {
	s := v.service
	r, first, err := s.accept(ctx, v.caller, req, true)
	if err != nil {
		s.denied(v.caller, err)
		return belljar.Run{}, nil, fault.As("start run", err)
	}
	if r == nil {
		return belljar.Await(ctx, v, first, wait)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-r.done:
		return s.finished(ctx, r, first)
	case <-timer.C:
	case <-r.stuck:
	case <-ctx.Done():
		return r.snapshot(), nil, context.Cause(ctx)
	case <-s.gone.Done():
		return belljar.Run{}, nil, fault.ShuttingDown()
	}
	// From the answer on its id is known.
	err = s.carrier.enlist(r)
	if errors.Is(err, errDraft) {
		timer.Reset(recordDelay)
		select {
		case <-r.done:
			return s.finished(ctx, r, first)
		case <-timer.C:
			r.mu.Lock()
			if r.unkept != nil {
				err = r.unkept
			}
			r.mu.Unlock()
			err = fault.Record("put the run on record", err)
		}
	}
	if err != nil {
		r.stop(fault.ErrCanceled)
		return belljar.Run{}, nil, err
	}
	run := r.snapshot()
	run.LastSeq, run.Details = r.said(), first.Details
	return run, nil, nil
}

// finished is the answer about a run that has ended.
func (s *Service) finished(ctx context.Context, r *run, first belljar.Run) (belljar.Run, *belljar.Output, error) {
	log := r.log.Read(ctx, 1)
	if r.short != nil {
		log = allOf(r.short)
	}
	out, err := belljar.Printed(log)
	if err != nil {
		return belljar.Run{}, nil, err
	}
	run := r.snapshot()
	run.LastSeq, run.Details = r.said(), first.Details
	return run, &out, nil
}

// allOf yields frames.
func allOf(list []belljar.Frame) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for _, f := range list {
			if !yield(f, nil) {
				return
			}
		}
	}
}
