package run

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// If the caller of a run in a session waits for its end, the run begins as a draft: it and its log are only in memory, and no caller
// knows its id. Most drafts end within milliseconds, and are then recorded with one write each for log and row. A draft that takes
// longer than draftFor, or appears in a list, is recorded in its current state and becomes a normal run. If the process dies, a draft
// leaves no trace: its caller got no response.

// draftFor is how long a run may stay a draft.
const draftFor = 200 * time.Millisecond

// errDraft means that a run has ended but is not recorded yet.
var errDraft = errors.New("run is not on record")

// newLog begins the log of a run.
func (s *recorder) newLog(r *Run) (logbook.Log, error) {
	if r.draft {
		return logbook.NewDraft(s.logs, r.id), nil
	}
	return s.logs.Create(r.id)
}

// keepLog stores the log of an ended draft: in its row if the log is in memory, else in its file.
func (s *recorder) keepLog(r *Run, row *store.Run) {
	if log, ok := r.log.(*logbook.Draft); ok {
		if frames, taken := log.Take(); taken {
			if err := row.SetLog(frames); err != nil {
				s.log.Error("log cannot be recorded", "run_id", r.id, "err", err)
			}
			row.LogBytes = int64(len(row.Log))
			return
		}
	}
	s.seal(r.id, r.log)
	row.LogBytes = r.log.Size()
}

// insertDraft records a draft in its current state. The caller holds r.writing.
func (s *recorder) insertDraft(r *Run) error {
	var err error
	if log, ok := r.log.(*logbook.Draft); ok {
		err = log.Keep()
	}
	if err == nil {
		_, err = s.store.Insert(context.Background(), s.row(r), nil)
	}
	if err != nil {
		return fault.Record("put the run on record", err)
	}
	r.draft = false
	s.startHeartbeatLocked(r)
	return nil
}

// recordDelay bounds how long a response waits for the record of an ended run.
const recordDelay = 2 * time.Second

// Finish starts a run and waits for its end: see [belljar.Finish]. started is false for a repeated request, which gets the first
// response.
func (s *Runs) Finish(
	ctx context.Context, caller belljar.Caller, req belljar.RunRequest, wait time.Duration,
) (run belljar.Run, out *belljar.Output, started bool, err error) {
	r, first, err := s.accept(ctx, caller, req, true)
	if err != nil || r == nil {
		return first, nil, false, err
	}
	run, out, err = s.await(ctx, r, first, wait)
	return run, out, true, err
}

// await waits for the end of a run, for at most wait.
func (s *Runs) await(ctx context.Context, r *Run, first belljar.Run, wait time.Duration) (belljar.Run, *belljar.Output, error) {
	select {
	case <-r.done:
		return s.finished(ctx, r, first)
	case <-time.After(wait):
	case <-r.stuck:
	case <-ctx.Done():
		return r.Snapshot(), nil, context.Cause(ctx)
	case <-s.opts.Closed.Done():
		return r.Snapshot(), nil, fault.Outlived(r.id) // it is on record
	}
	// The response reveals the id, so record the run first.
	err := s.runner.flush(r, true)
	if errors.Is(err, errDraft) {
		select {
		case <-r.done:
			return s.finished(ctx, r, first)
		case <-time.After(recordDelay):
			r.mu.Lock()
			err = fault.Unrecorded(r.id, "has ended", cmp.Or(r.recordErr, err))
			r.mu.Unlock()
		}
	} else if err != nil {
		r.stop(fault.ErrCanceled)
		err = fault.Unrecorded(r.id, "is cancelled", err)
	}
	if err != nil {
		return belljar.Run{}, nil, err
	}
	run := r.Snapshot()
	run.LastSeq, run.Details = r.visibleSeq(), first.Details
	return run, nil, nil
}

// finished returns the response for a run that has ended.
func (s *Runs) finished(ctx context.Context, r *Run, first belljar.Run) (belljar.Run, *belljar.Output, error) {
	out, err := belljar.Printed(r.log.Read(ctx, 1))
	if err != nil {
		return belljar.Run{}, nil, err
	}
	run := r.Snapshot()
	run.LastSeq, run.Details = r.visibleSeq(), first.Details
	return run, &out, nil
}
