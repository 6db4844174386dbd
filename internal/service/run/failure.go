package run

import (
	"context"
	"iter"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/outcome"
)

// How much of each stream is searched for a failure.
const (
	failureHead = 64 << 10
	failureTail = 1<<20 - 1
)

// failure parses the reason of the program's failure from the run's log; nil if the program
// succeeded, or did not run.
func (c *execution) failure(o outcome.Outcome) *belljar.RunFailure {
	if o.Phase != belljar.PhaseFailed || !c.end.Started && !c.end.Building {
		return nil
	}
	var stdout, stderr ends
	last := c.run.log.Last()
	for f, err := range frames(c.run.log) {
		if err != nil {
			c.log.Error("log cannot be read for a failure", "run_id", c.run.id, "err", err)
			return nil
		}
		switch f.Type {
		case belljar.FrameStdout:
			stdout.write(f.Output)
		case belljar.FrameStderr:
			stderr.write(f.Output)
		}
		if f.Seq >= last {
			break
		}
	}
	cwd := c.end.Cwd
	if o.Shell != nil {
		cwd = o.Shell.Cwd
	}
	return outcome.Failure(stdout.String(), stderr.String(), cwd)
}

// frames returns the frames of a log to which nothing is appended now. A draft stays a draft.
func frames(log logbook.Log) iter.Seq2[belljar.Frame, error] {
	if log.Last() == 0 {
		return func(func(belljar.Frame, error) bool) {}
	}
	if draft, ok := log.(*logbook.Draft); ok {
		if kept, ok := draft.Frames(); ok {
			return func(yield func(belljar.Frame, error) bool) {
				for _, f := range kept {
					if !yield(f, nil) {
						return
					}
				}
			}
		}
	}
	return log.Read(context.Background(), 1)
}

// ends keeps the beginning and the end of a stream.
type ends struct {
	head, tail []byte
	lost       bool // the bytes between were dropped
}

func (e *ends) write(b []byte) {
	if n := min(len(b), failureHead-len(e.head)); n > 0 {
		e.head, b = append(e.head, b[:n]...), b[n:]
	}
	if e.tail = append(e.tail, b...); len(e.tail) > 2*failureTail {
		e.shorten()
	}
}

func (e *ends) shorten() {
	if n := len(e.tail) - failureTail; n > 0 {
		e.tail, e.lost = slices.Delete(e.tail, 0, n), true
	}
}

// String returns the text, with a line break in place of dropped bytes.
func (e *ends) String() string {
	if e.shorten(); e.lost {
		return string(e.head) + "\n" + string(e.tail)
	}
	return string(e.head) + string(e.tail)
}
