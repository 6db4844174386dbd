package api

import (
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar"
)

// AwaitEnd waits until a run ends, at most for wait, and returns its current state.
func AwaitEnd(ctx context.Context, runs belljar.Runs, id string, wait time.Duration) (belljar.Run, error) {
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	for _, err := range runs.Frames(waiting, id, belljar.Tail) {
		if err == nil {
			continue
		}
		if ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded) {
			break
		}
		return belljar.Run{}, err
	}
	return runs.Get(ctx, id)
}

// OutputQuery selects the part of a run's output that [ReadOutput] returns.
type OutputQuery struct {
	Since  uint64        // the last seq that the caller has
	Frames int           // maximum number of frames; 0 means no limit
	Bytes  int           // of output: no frame is added once the limit is reached; 0 means no limit
	Wait   time.Duration // how long to wait for output or the end if there is none after Since
}

// OutputPart is a part of a run's output.
type OutputPart struct {
	Frames []belljar.Frame // stdout and stderr, in order
	Done   bool            // the run has ended and there is no more output
	// Next is the Since of the next query. It also counts frames without output: heartbeats, the end.
	Next      uint64
	Truncated bool        // output after Since is missing: the log reached its cap, or was deleted
	Run       belljar.Run // its current state
}

// ReadOutput returns the run's output after q.Since, within the query's limits.
func ReadOutput(ctx context.Context, runs belljar.Runs, run belljar.Run, q OutputQuery) (OutputPart, error) {
	r := reading{OutputPart: OutputPart{Next: q.Since, Run: run}, query: q, until: run.LastSeq}
	var err error
	switch {
	case run.Phase.Terminal() && q.Since >= run.LastSeq:
		r.Done = true
	case q.Since < run.LastSeq:
		err = r.read(ctx, runs)
	}
	if err == nil && q.Wait > 0 && len(r.Frames) == 0 && !r.Done {
		err = r.await(ctx, runs)
	}
	if err == nil && r.Done && !r.Run.Phase.Terminal() {
		r.Run, err = runs.Get(ctx, run.ID)
	}
	if err != nil {
		return OutputPart{}, err
	}
	return r.OutputPart, nil
}

// reading collects a part of a run's output from its log.
type reading struct {
	OutputPart
	query OutputQuery
	bytes int    // so far
	until uint64 // the last frame that is known to exist
}

// take adds a frame. It reports whether the limits allow another.
func (r *reading) take(f belljar.Frame) bool {
	if f.Seq > r.Next+1 {
		r.Truncated = true // frames were deleted
	}
	r.Next = f.Seq
	switch f.Type {
	case belljar.FrameStdout, belljar.FrameStderr:
		r.Frames = append(r.Frames, f)
		r.bytes += len(f.Output)
	case belljar.FrameTruncated:
		r.Truncated = true
	case belljar.FrameEvent:
		r.Done = r.Done || f.Event == belljar.EventEnd
	}
	return (r.query.Frames <= 0 || len(r.Frames) < r.query.Frames) && (r.query.Bytes <= 0 || r.bytes < r.query.Bytes)
}

// read takes the existing frames, up to r.until.
func (r *reading) read(ctx context.Context, runs belljar.Runs) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for f, err := range runs.Frames(ctx, r.Run.ID, r.Next+1) {
		if err != nil {
			return err
		}
		if !r.take(f) || f.Seq >= r.until {
			break
		}
	}
	return nil
}

// await waits for the first output or the end, at most for query.Wait, and then takes the existing frames.
func (r *reading) await(ctx context.Context, runs belljar.Runs) error {
	waiting, stop := context.WithTimeout(ctx, r.query.Wait)
	defer stop()
	for f, err := range runs.Frames(waiting, r.Run.ID, r.Next+1) {
		if err != nil {
			if ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded) {
				return nil
			}
			return err
		}
		more := r.take(f)
		if len(r.Frames) == 0 {
			continue
		}
		if !more || r.Done {
			return nil
		}
		break
	}
	if r.Done {
		return nil
	}
	now, err := runs.Get(ctx, r.Run.ID)
	if err != nil {
		return err
	}
	if r.Run, r.until = now, now.LastSeq; r.until <= r.Next {
		return nil
	}
	return r.read(ctx, runs)
}
