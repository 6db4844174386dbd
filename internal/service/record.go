package service

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/store"
)

// recorder puts on record what becomes of runs, and says it in their logs and to those who follow events.
type recorder struct {
	store      store.Runs
	logs       logbook.Book
	events     event.Sink
	clock      Clock
	log        *slog.Logger
	node       string // this daemon among those on the same store
	heartbeat  time.Duration
	work       func(f func())  // runs f in a goroutine that the service waits for
	closing    context.Context // ends when the service closes
	unregister func(r *run)
}

// now is the time as it goes on record.
func (s *recorder) now() time.Time { return clock.Stamp(s.clock) }

// noteAfter is how long a run stays in a phase before that is put on record, unless somebody asks for a list. Most runs
// are over by then, and their last state is all that needs to be written.
const noteAfter = time.Second

// row is a run under way as it goes on record. What was asked is a part of that if the run can begin with it in another
// process, or has begun.
func (s *recorder) row(r *run) store.Run {
	row := store.Run{Run: r.snapshot(), NodeID: s.node}
	if p := r.plan; p != nil && (row.Phase == belljar.PhaseRunning || r.resumable()) {
		row.Spec = &p.request.RunSpec
		row.Image = r.imageNoted()
	}
	return row
}

// note puts the run's phase on record, soon.
func (s *recorder) note(r *run) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.over || r.noted || r.draft {
		return
	}
	r.noted = true
	r.unnote = s.clock.AfterFunc(noteAfter, func() { s.write(r) })
}

// write puts the run's phase on record if that is due. A draft has no record yet.
func (s *recorder) write(r *run) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.over || !r.noted || r.draft {
		return
	}
	r.noted = false
	r.unnote()
	if err := s.store.Update(context.Background(), s.row(r)); err != nil {
		s.log.Warn("phase of a run could not be put on record", "run_id", r.id, "err", err)
	}
}

// catchUp puts on record in which phases runs are now, so that they can be looked for. Drafts that have just ended are
// about to be there, and waited for, for a while.
func (s *Service) catchUp(ctx context.Context) {
	s.mu.Lock()
	under := slices.Collect(maps.Values(s.runs))
	s.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, recordDelay)
	defer stop()
	for _, r := range under {
		switch err := s.carrier.enlist(r); {
		case err == nil:
			s.carrier.write(r)
		case errors.Is(err, errDraft):
			select {
			case <-r.done:
			case <-ctx.Done():
			}
		default:
			s.log.Warn("run could not be put on record", "run_id", r.id, "err", err)
		}
	}
}

// beat says in the log from time to time that the run is under way.
func (s *recorder) beat(r *run) {
	r.writing.Lock()
	defer r.writing.Unlock()
	s.beatOn(r)
}

// beatOn is beat for a caller who holds r.writing.
func (s *recorder) beatOn(r *run) {
	if r.over {
		return
	}
	r.rest = s.clock.AfterFunc(s.heartbeat, func() {
		r.writing.Lock()
		if !r.over {
			r.say(belljar.Frame{Type: belljar.FrameHeartbeat, Time: s.now()})
		}
		r.writing.Unlock()
		s.beat(r)
	})
}

// hush ends notes and heartbeats.
func (r *run) hush() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.over = true
	for _, stop := range []func() bool{r.unnote, r.rest, r.undraw} {
		if stop != nil {
			stop()
		}
	}
}

// conclude puts on record what became of a run, then tells those who follow it: whoever sees the end event finds the
// finished run, and neither is lost with the machine's power. The log ends before the record does, so that a crash in
// between leaves a log that says how the record has to be mended.
func (s *recorder) conclude(r *run, o outcome, usage belljar.ResourceUsage, files *captured, truncated bool) {
	r.hush()
	last, err := s.finish(r, o, &usage, truncated)
	if err != nil {
		s.log.Error("run could not be finished", "run_id", r.id, "err", err)
		return
	}
	row := store.Run{Run: last, NodeID: s.node, Artifacts: files.list()}
	row.LastSeq = s.endLog(r.id, r.log, o.frames())
	row.LogBytes = r.log.Size()
	r.mu.Lock()
	r.lastSeq = row.LastSeq
	r.mu.Unlock()
	if r.draft {
		s.shelve(r, &row)
		r.kept.Hold(row.LogBytes)
		err = s.end(r, row)
	} else {
		r.kept.Hold(row.LogBytes)
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
	s.log.Error("end of a run could not be put on record, trying on", "run_id", r.id, "err", err)
	r.mu.Lock()
	r.unkept = err
	r.mu.Unlock()
	close(r.stuck)
	s.work(func() {
		if s.tryOn(func() error { return s.end(r, row) }, "run_id", r.id) {
			s.publish(r, last)
		}
		files.recorded()
		r.kept.Close()
	})
}

// endLog puts the last frames into a log and returns the seq of the end event. If the log does not take them, readers
// get the end from the record, behind what is there.
func (s *recorder) endLog(id string, log logbook.Log, frames []belljar.Frame) uint64 {
	if err := log.Append(frames...); err != nil {
		s.log.Error("log could not be ended", "run_id", id, "err", err)
		return log.Last() + 1
	}
	return log.Last()
}

func (s *recorder) seal(id string, log logbook.Log) {
	if err := log.Seal(); err != nil {
		s.log.Error("log could not be sealed", "run_id", id, "err", err)
	}
}

// end puts the end of a run on record.
func (s *recorder) end(r *run, row store.Run) error {
	if r.draft {
		return s.store.Add(context.Background(), row)
	}
	return s.store.Finish(context.Background(), row)
}

// insist puts the end of a run on record, however often that takes, unless Close gives up: then [Service.Recover] mends
// the record.
func (s *recorder) insist(row store.Run) bool {
	return s.tryOn(func() error { return s.store.Finish(context.Background(), row) }, "run_id", row.ID)
}

// tryOn puts an end on record until that works; false if it never can, or Close gives up.
func (s *recorder) tryOn(end func() error, of ...any) bool {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		again := make(chan struct{})
		stop := s.clock.AfterFunc(pause, func() { close(again) })
		select {
		case <-again:
		case <-s.closing.Done():
			stop()
			return false
		}
		err := end()
		if err == nil {
			return true
		}
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrClosed) {
			s.log.Error("an end can never be put on record", append(of, "err", err)...)
			return false
		}
	}
}
