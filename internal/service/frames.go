package service

import (
	"context"
	"errors"
	"iter"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// Frames yields a run's log and follows it to its end.
func (v runs) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	r, row, err := v.service.find(ctx, v.caller, id)
	switch {
	case err != nil:
		return failed(err)
	case r != nil:
		return v.service.follow(ctx, r, from)
	case !row.Phase.Terminal():
		return failed(&belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "run " + id + " is not under way in this process",
			Details: map[string]any{"run_id": id},
		})
	}
	return v.service.recount(ctx, row, from)
}

func failed(err error) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) { yield(belljar.Frame{}, err) }
}

func isEnd(f belljar.Frame) bool { return f.Type == belljar.FrameEvent && f.Event == belljar.EventEnd }

// follow reads the log of a run under way. The end event is held back until the run's end is on record.
func (s *Service) follow(ctx context.Context, r *run, from uint64) iter.Seq2[belljar.Frame, error] {
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
		defer context.AfterFunc(s.gone, func() { stop(fault.ShuttingDown()) })()
		for f, err := range r.log.Read(reading, from) {
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
		if last := r.end(); from <= last.Seq {
			yield(last, nil)
		}
	}
}

// cause is why a context ended, if that is what err says.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// end is the end event of a run that is done.
func (r *run) end() belljar.Frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return endFrame(r.state, r.lastSeq)
}

// recount reads the log of a run that has ended. What of it was swept is gone, but the end is on record; where it is
// damaged, a mark takes the place of what is lost.
func (s *Service) recount(ctx context.Context, row store.Run, from uint64) iter.Seq2[belljar.Frame, error] {
	end := endFrame(row.Run, row.LastSeq)
	return func(yield func(belljar.Frame, error) bool) {
		if from == belljar.Tail || from == end.Seq {
			yield(end, nil)
			return
		}
		if from > end.Seq {
			return
		}
		next := max(from, 1)
		var log iter.Seq2[belljar.Frame, error]
		var err error
		if row.Log != nil {
			log = row.Frames()
		} else if log, err = s.openLogOf(ctx, row, end.Seq, from); err != nil {
			yield(belljar.Frame{}, err)
			return
		}
		for f, err := range log {
			if errors.Is(err, store.ErrCorrupt) {
				s.log.Error("log on record is damaged", "run_id", row.ID, "err", err)
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
		if next < end.Seq && !row.LogGone {
			if !yield(belljar.Frame{Seq: next, Type: belljar.FrameTruncated, Reason: cutDamaged}, nil) {
				return
			}
		}
		yield(end, nil)
	}
}

// openLogOf opens the log of a run that has ended, from a frame on; one that is gone is empty.
func (s *Service) openLogOf(ctx context.Context, row store.Run, end, from uint64) (iter.Seq2[belljar.Frame, error], error) {
	log, err := s.opts.Logs.Open(row.ID)
	if errors.Is(err, logbook.ErrNotFound) {
		return func(func(belljar.Frame, error) bool) {}, nil
	}
	if err != nil {
		return nil, fault.Record("open the log of run "+row.ID, err)
	}
	if log.Last() < end {
		// A loss of power took its last frames. Nobody writes to it any more.
		if err := log.Seal(); err != nil {
			s.log.Error("log could not be sealed", "run_id", row.ID, "err", err)
		}
	}
	return log.Read(ctx, from), nil
}

// endFrame is the end event of a run, as its log has it.
func endFrame(run belljar.Run, seq uint64) belljar.Frame {
	data := map[string]any{"phase": string(run.Phase), "exit_code": nil, "reason_code": nil}
	if run.ExitCode != nil {
		data["exit_code"] = *run.ExitCode
	}
	if run.ReasonCode != "" {
		data["reason_code"] = string(run.ReasonCode)
	}
	return belljar.Frame{Seq: seq, Type: belljar.FrameEvent, Event: belljar.EventEnd, Data: data}
}
