package service

import (
	"fmt"
	"time"

	"github.com/belljar/belljar"
)

// become moves a run on to a phase that is not its last, and says so in its log.
func (r *run) become(next belljar.Phase) error {
	r.mu.Lock()
	if err := r.move(next); err != nil {
		r.mu.Unlock()
		return err
	}
	if next == belljar.PhaseRunning {
		now := time.Now().UTC()
		r.state.StartedAt = &now
	}
	r.mu.Unlock()
	return r.log.Append(belljar.Frame{
		Type: belljar.FrameEvent, Event: belljar.EventPhase, Data: map[string]any{"phase": string(next)},
	})
}

// begin says that the command runs.
func (r *run) begin() error {
	if err := r.become(belljar.PhaseRunning); err != nil {
		return err
	}
	return r.log.Append(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventStart})
}

// finish moves a run to its last phase with everything that is known of it.
func (r *run) finish(o outcome, usage belljar.ResourceUsage, c *captured, truncated bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.move(o.phase); err != nil {
		return err
	}
	now := time.Now().UTC()
	s := &r.state
	s.FinishedAt = &now
	s.ExitCode, s.Signal, s.ReasonCode = o.exitCode, o.signal, o.reason
	s.Message, s.Hint, s.Warnings = o.message, o.hint, o.warnings
	s.ResourceUsage, s.Truncated = &usage, truncated
	r.captured, r.plan = c, nil
	return nil
}

// conclude ends the run's log with the end event. Whoever reads that finds the finished run.
func (r *run) conclude(o outcome) error {
	if err := r.log.Append(o.frames()...); err != nil {
		return fmt.Errorf("end the log: %w", err)
	}
	return r.log.Seal()
}

// move changes the phase if that is allowed. The caller holds the lock.
func (r *run) move(next belljar.Phase) error {
	if now := r.state.Phase; !now.CanBecome(next) {
		return fmt.Errorf("run %s is %s and cannot become %s", r.id, now, next)
	}
	r.state.Phase = next
	return nil
}
