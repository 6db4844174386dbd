package run

import (
	"context"
	"iter"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/outcome"
)

// failure parses the reason of the program's failure from the run's log; nil if the program
// succeeded, or did not run.
func (c *execution) failure(o outcome.Outcome) *belljar.RunFailure {
	if o.Phase != belljar.PhaseFailed || !c.end.Started && !c.end.Building {
		return nil
	}
	var stdout, stderr outcome.Ends
	last := c.run.log.Last()
	for f, err := range frames(c.run.log) {
		if err != nil {
			c.runner.log.Error("log cannot be read for a failure", "run_id", c.run.id, "err", err)
			return nil
		}
		switch f.Type {
		case belljar.FrameStdout:
			stdout.Add(f.Output)
		case belljar.FrameStderr:
			stderr.Add(f.Output)
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
