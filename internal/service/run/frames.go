package run

import (
	"context"
	"errors"
	"iter"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/outcome"
	"github.com/belljar/belljar/internal/store"
)

func isEnd(f belljar.Frame) bool { return f.Type == belljar.FrameEvent && f.Event == belljar.EventEnd }

// Turns yields a log from seq from on. It reads the frames up to last, which exist, in turns with other readers.
type Turns func(ctx context.Context, log iter.Seq2[belljar.Frame, error], from, last uint64) iter.Seq2[belljar.Frame, error]

// Follow yields the log of a live run from a frame on, and follows it to its end. It holds the end event back until the run's end is
// on record. A log that ends in front of the frame yields its end.
func (s *Runs) Follow(ctx context.Context, r *Run, from uint64, turns Turns) iter.Seq2[belljar.Frame, error] {
	if from == belljar.Tail {
		from = r.log.Last() + 1
		r.mu.Lock()
		if r.lastSeq > 0 {
			from = min(from, r.lastSeq)
		}
		r.mu.Unlock()
	}
	return func(yield func(belljar.Frame, error) bool) {
		reading, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		defer context.AfterFunc(s.opts.Closed, func() { stop(fault.ShuttingDown()) })()
		for f, err := range turns(reading, r.log.Read(reading, from), from, r.log.Last()) {
			if err != nil {
				yield(belljar.Frame{}, cause(reading, err))
				return
			}
			if isEnd(f) {
				break
			}
			if !yield(f, nil) {
				return
			}
		}
		select {
		case <-r.done:
		default:
			select {
			case <-r.done:
			case <-reading.Done():
				yield(belljar.Frame{}, cause(reading, reading.Err()))
				return
			}
		}
		if last := r.end(); from != last.Seq+1 { // else the reader has all
			yield(last, nil)
		}
	}
}

// cause returns the cause of a context's end, if that is what err means.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// end returns the end event of a finished run.
func (r *Run) end() belljar.Frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return outcome.EndFrame(r.state, r.lastSeq)
}

// Replay yields the log of an ended run from a frame on. A swept log yields only the end event, from the record. In a damaged log, a
// mark replaces the lost frames.
func (s *Runs) Replay(ctx context.Context, row store.Run, from uint64, turns Turns) iter.Seq2[belljar.Frame, error] {
	end := outcome.EndFrame(row.Run, row.LastSeq)
	// A slow reader must not keep the rest in memory, such as thousands of artifacts.
	row = store.Run{Run: belljar.Run{ID: row.ID}, Log: row.Log, LogGone: row.LogGone}
	return func(yield func(belljar.Frame, error) bool) {
		if from == end.Seq+1 { // the reader has all
			return
		}
		if from >= end.Seq { // also belljar.Tail
			yield(end, nil)
			return
		}
		next := max(from, 1)
		log, err := s.openLogOf(ctx, row, end.Seq, from)
		if err != nil {
			yield(belljar.Frame{}, err)
			return
		}
		for f, err := range turns(ctx, log, next, end.Seq) {
			if errors.Is(err, store.ErrCorrupt) {
				s.runner.log.Error("log on record is damaged", "run_id", row.ID, "err", err)
				break
			}
			if err != nil {
				yield(belljar.Frame{}, err)
				return
			}
			if isEnd(f) || f.Seq >= end.Seq {
				break
			}
			if f.Seq < from {
				continue
			}
			if !yield(f, nil) {
				return
			}
			next = f.Seq + 1
		}
		if next < end.Seq && !row.LogGone && !yield(belljar.Frame{Seq: next, Type: belljar.FrameTruncated, Reason: cutDamaged}, nil) {
			return
		}
		yield(end, nil)
	}
}

// openLogOf opens the log of an ended run, from a frame on. A missing log is empty.
func (s *Runs) openLogOf(ctx context.Context, row store.Run, end, from uint64) (iter.Seq2[belljar.Frame, error], error) {
	if row.Log != nil {
		return row.Frames(), nil
	}
	log, err := s.runner.logs.Open(row.ID)
	if errors.Is(err, logbook.ErrNotFound) {
		return func(func(belljar.Frame, error) bool) {}, nil
	}
	if err != nil {
		return nil, fault.Record("open the log of run "+row.ID, err)
	}
	if log.Last() < end { // a power failure lost its last frames; no process writes to it any longer
		if err := log.Seal(); err != nil {
			s.runner.log.Error("log cannot be sealed", "run_id", row.ID, "err", err)
		}
	}
	return log.Read(ctx, from), nil
}
