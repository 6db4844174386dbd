package run

import (
	"context"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/outcome"
)

// become moves a run to a phase before its command runs. A run that must stop does not leave the queue: become returns why it must.
func (s *recorder) become(r *Run, next belljar.Phase) error {
	if err := r.advance(next, nil); err != nil {
		return err
	}
	r.appendLog(phaseFrame(next))
	return nil
}

// begin moves a run to running. sent is when its agent got the command: the response may arrive late, and a run must not look shorter than its
// command.
func (s *recorder) begin(r *Run, sent time.Time) error {
	if err := r.advance(belljar.PhaseRunning, &sent); err != nil {
		return err
	}
	s.note(r) // before the log has it, so that a reader of the log finds the run in lists of running runs
	r.appendLog(phaseFrame(belljar.PhaseRunning), belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventStart})
	return nil
}

// advance moves a run to a phase.
func (r *Run) advance(next belljar.Phase, started *time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Phase == belljar.PhaseQueued && r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if now := r.state.Phase; !now.CanBecome(next) {
		return fmt.Errorf("run %s is %s and cannot become %s", r.id, now, next)
	}
	if r.state.Phase = next; started != nil {
		r.state.StartedAt = started
	}
	return nil
}

func phaseFrame(p belljar.Phase) belljar.Frame {
	return belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventPhase, Data: map[string]any{"phase": string(p)}}
}

// appendLog appends frames of Belljar to the log. If that fails, the run continues, and gets a warning at its end.
func (r *Run) appendLog(frames ...belljar.Frame) {
	if err := r.log.Append(frames...); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fault == nil {
			r.fault = err
		}
	}
}

// finish returns the run in its final phase, with all results. It becomes the run's state in [recorder.publish].
func (s *recorder) finish(r *Run, o outcome.Outcome, usage *belljar.ResourceUsage, truncated bool) (belljar.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.state
	if !last.Phase.CanBecome(o.Phase) {
		return last, fmt.Errorf("run %s is %s and cannot become %s", r.id, last.Phase, o.Phase)
	}
	last.Phase, last.FinishedAt = o.Phase, new(s.now())
	last.ExitCode, last.Signal, last.ReasonCode = o.ExitCode, o.Signal, o.Reason
	last.Message, last.Hint, last.Warnings = outcome.TruncateText(o.Message), outcome.TruncateText(o.Hint), outcome.TruncateWarnings(o.Warnings)
	last.ResourceUsage, last.Truncated, last.Shell, last.Failure = usage, truncated, o.Shell, o.Failure
	if last.Context != nil {
		of := *last.Context
		if last.Context, last.Shell = &of, nil; o.Shell != nil {
			of.State = o.Shell.State
		}
	}
	if r.fault != nil {
		last.Warnings = append(last.Warnings, "the log is incomplete: "+r.fault.Error())
	}
	return last, nil
}

// publish makes the final state of a run visible to its readers and to followers of its log.
func (s *recorder) publish(r *Run, last belljar.Run) {
	r.mu.Lock()
	program := r.plan.logged()
	r.state, r.plan = last, nil
	r.mu.Unlock()
	r.releaseRequest()
	s.unregister(r)
	s.recordEnded(r, program, last)
	close(r.done)
}
