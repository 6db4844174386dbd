package run

import (
	"context"
	"log/slog"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/outcome"
	"github.com/belljar/belljar/internal/service/retry"
	"github.com/belljar/belljar/internal/store"
)

// recorder records the states of runs, appends to their logs and records their events.
type recorder struct {
	store      store.Runs
	logs       logbook.Book
	record     func(event.Event)
	clock      clock.Clock
	log        *slog.Logger
	node       string // this server among those on the same store
	heartbeat  time.Duration
	work       *lifecycle.Group
	retry      *retry.Writer
	unregister func(r *Run)
}

// now returns the time in the precision of records.
func (s *recorder) now() time.Time { return clock.Stamp(s.clock) }

// noteAfter is how long a run stays in a phase before that is recorded, unless runs are listed. Most runs end earlier, so that only their
// final state is written.
const noteAfter = time.Second

// retryAfter is the pause before a record is written again that could not be. Many runs may be live, and each failure is logged.
const retryAfter = 5 * time.Second

// row returns the record of a live run. It includes the request if another process can start the run, or if the run has begun.
func (s *recorder) row(r *Run) store.Run {
	row := store.Run{Run: r.Snapshot(), NodeID: s.node}
	if p := r.plan; p != nil && (row.Phase == belljar.PhaseRunning || r.resumable()) {
		spec := p.request.RunSpec
		spec.Secrets = nil
		row.Spec, row.Secrets, row.Limits = &spec, p.sealed, &p.Limits
		row.Image, row.Below = r.noted()
		row.Operator = r.caller.Admin()
	}
	return row
}

// note schedules a write of the run's record within noteAfter, unless one is scheduled.
func (s *recorder) note(r *Run) { s.flushLater(r, noteAfter) }

// flushLater schedules a write of the run's record after a time, unless one is scheduled.
func (s *recorder) flushLater(r *Run, d time.Duration) {
	r.writing.Lock()
	defer r.writing.Unlock()
	s.flushLaterLocked(r, d)
}

// flushLaterLocked is flushLater for a caller that holds r.writing.
func (s *recorder) flushLaterLocked(r *Run, d time.Duration) {
	if !r.over && !r.due {
		r.due, r.cancelFlush = true, s.clock.AfterFunc(d, func() { _ = s.flush(r, true) })
	}
}

// flush writes the run's record if that is due; for a draft, only if drafts is true. The error is why a draft is not on record:
// [errDraft] if it has ended and its end will be recorded soon.
func (s *recorder) flush(r *Run, drafts bool) (err error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	switch {
	case r.draft && r.over:
		return errDraft
	case r.over || !r.due || r.draft && !drafts:
		return nil
	}
	r.due = false
	r.cancelFlush()
	if r.draft {
		err = s.insertDraft(r)
	} else if failed := s.store.Update(context.Background(), s.row(r)); failed != nil {
		s.log.Warn("phase of a run cannot be recorded", "run_id", r.id, "err", failed)
		if !retry.IsFinal(failed) {
			s.flushLaterLocked(r, retryAfter) // its phase may not change again for hours
		}
	}
	if err != nil {
		s.log.Warn("run cannot be recorded; retrying", "run_id", r.id, "err", err)
		s.flushLaterLocked(r, retryAfter)
	}
	return err
}

// startHeartbeat appends a heartbeat to the log periodically.
func (s *recorder) startHeartbeat(r *Run) {
	r.writing.Lock()
	defer r.writing.Unlock()
	s.startHeartbeatLocked(r)
}

// startHeartbeatLocked is startHeartbeat for a caller that holds r.writing.
func (s *recorder) startHeartbeatLocked(r *Run) {
	if r.over {
		return
	}
	r.stopHeartbeat = s.clock.AfterFunc(s.heartbeat, func() {
		r.writing.Lock()
		if !r.over {
			r.appendLog(belljar.Frame{Type: belljar.FrameHeartbeat, Time: s.now()})
		}
		r.writing.Unlock()
		s.startHeartbeat(r)
	})
}

// stopUpdates stops heartbeats and scheduled writes.
func (r *Run) stopUpdates() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.over = true
	for _, stop := range []func() bool{r.cancelFlush, r.stopHeartbeat} {
		if stop != nil {
			stop()
		}
	}
}

// conclude records the outcome of a run, then publishes it: a reader that gets the end event finds the finished run, and a power failure
// loses neither. The log ends before the record does: after a crash in between, the log has the outcome.
func (c *execution) conclude(o outcome.Outcome, usage belljar.ResourceUsage, files *captured) {
	r, s := c.run, c.runner.recorder
	r.stopUpdates()
	last, err := s.finish(r, o, &usage, c.out.cut)
	if err != nil {
		s.log.Error("run cannot be finished", "run_id", r.id, "err", err)
		return
	}
	row := store.Run{Run: last, NodeID: s.node}
	row.SetArtifacts(files.list())
	row.Charge = c.charge(row.CPUSeconds())
	row.LastSeq = s.endLog(r.id, r.log, o.Frames())
	row.LogBytes = r.log.Size()
	r.mu.Lock()
	r.lastSeq = row.LastSeq
	r.mu.Unlock()
	if r.draft {
		s.keepLog(r, &row)
		r.kept.SetTo(row.LogBytes)
		err = s.end(r, row)
	} else {
		r.kept.SetTo(row.LogBytes)
		sealed := make(chan struct{})
		go func() {
			defer close(sealed)
			s.seal(r.id, r.log)
		}()
		err = s.end(r, row)
		<-sealed
	}
	if err == nil {
		s.publish(r, last)
		files.recorded()
		r.kept.Close()
		return
	}
	s.log.Error("end of a run cannot be recorded; retrying", "run_id", r.id, "err", err)
	r.mu.Lock()
	r.recordErr = err
	r.mu.Unlock()
	close(r.stuck)
	s.work.Go(func() {
		if s.retry.Do(func() error { return s.end(r, row) }, "run_id", r.id) {
			s.publish(r, last)
		}
		files.recorded()
		r.kept.Close()
	})
}

// endLog appends the last frames to a log and returns the seq of the end event. If that fails, readers get the end event from the record,
// after the log's frames.
func (s *recorder) endLog(id string, log logbook.Log, frames []belljar.Frame) uint64 {
	if err := log.Append(frames...); err != nil {
		s.log.Error("log cannot be ended", "run_id", id, "err", err)
		return log.Last() + 1
	}
	return log.Last()
}

// seal seals a log. It retries in the background while the disk is full: until then the log keeps its file open.
func (s *recorder) seal(id string, log logbook.Log) {
	err := log.Seal()
	if err == nil {
		return
	}
	s.log.Error("log cannot be sealed", "run_id", id, "err", err)
	if fault.Full(err) {
		s.work.Go(func() {
			s.retry.Do(func() error {
				if err := log.Seal(); fault.Full(err) {
					return err
				}
				return nil
			}, "run_id", id)
		})
	}
}

// end records the end of a run.
func (s *recorder) end(r *Run, row store.Run) error {
	if r.draft {
		return s.store.Add(context.Background(), row)
	}
	return s.store.Finish(context.Background(), row)
}
