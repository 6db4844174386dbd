package service

import (
	"fmt"
	"time"

	"github.com/belljar/belljar"
)

// become moves a run on to a phase that is not its last and in which its command does not run yet.
func (s *recorder) become(r *run, next belljar.Phase) error { return r.enter(next, nil) }

// begin moves a run on to running. told is when its agent was told to run the command: the answer may come late, and a
// run that has ended must not look shorter than its command was.
func (s *recorder) begin(r *run, told time.Time) error {
	return r.enter(belljar.PhaseRunning, &told, belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventStart})
}

// enter moves a run on to a phase that is not its last, and says so in its log, with what goes along.
func (r *run) enter(next belljar.Phase, started *time.Time, along ...belljar.Frame) error {
	r.mu.Lock()
	if err := r.move(next); err != nil {
		r.mu.Unlock()
		return err
	}
	if started != nil {
		r.state.StartedAt = started
	}
	r.mu.Unlock()
	r.say(append([]belljar.Frame{phaseFrame(next)}, along...)...)
	return nil
}

func phaseFrame(p belljar.Phase) belljar.Frame {
	return belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventPhase, Data: map[string]any{"phase": string(p)}}
}

// say puts frames of ours into the log. A run goes on without them; that they are missing is its warning.
func (r *run) say(frames ...belljar.Frame) {
	if err := r.log.Append(frames...); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fault == nil {
			r.fault = err
		}
	}
}

// finish returns the run in its last phase, with everything that is known of it. It is the run's own state from
// [run.publish] on.
func (s *recorder) finish(r *run, o outcome, usage *belljar.ResourceUsage, truncated bool) (belljar.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.state
	if !last.Phase.CanBecome(o.phase) {
		return last, fmt.Errorf("run %s is %s and cannot become %s", r.id, last.Phase, o.phase)
	}
	now := s.now()
	last.Phase, last.FinishedAt = o.phase, &now
	last.ExitCode, last.Signal, last.ReasonCode = o.exitCode, o.signal, o.reason
	last.Message, last.Hint, last.Warnings = briefText(o.message), briefText(o.hint), briefWarnings(o.warnings)
	last.ResourceUsage, last.Truncated, last.Shell = usage, truncated, o.shell
	if r.fault != nil {
		last.Warnings = append(last.Warnings, "the log is incomplete: "+r.fault.Error())
	}
	return last, nil
}

// publish makes the last state of a run known to those who ask for it and to those who follow its log.
func (s *recorder) publish(r *run, last belljar.Run) {
	r.mu.Lock()
	r.state, r.plan = last, nil
	r.mu.Unlock()
	r.discharge()
	s.unregister(r)
	s.told(r, last)
	close(r.done)
}

// move changes the phase if that is allowed. The caller holds the lock.
func (r *run) move(next belljar.Phase) error {
	if now := r.state.Phase; !now.CanBecome(next) {
		return fmt.Errorf("run %s is %s and cannot become %s", r.id, now, next)
	}
	r.state.Phase = next
	return nil
}
