package run

import (
	"context"
	"log/slog"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/outcome"
	"github.com/belljar/belljar/internal/service/placement"
)

// happened records an event of a run.
func (s *recorder) happened(name string, r *Run, took time.Duration) {
	state := r.Snapshot()
	e := event.Event{Name: name, Caller: r.caller, Run: &state, Runtime: state.Runtime, Took: took}
	if name == event.RunCreated {
		e.Detail = placement.Waived(r.plan.Caps, r.plan.request.AllowWeak)
	}
	s.record(e)
}

// endEvent returns the event of a run that ended in a phase.
func endEvent(p belljar.Phase) string {
	switch p {
	case belljar.PhaseCompleted:
		return event.RunCompleted
	case belljar.PhaseTimedOut:
		return event.RunTimedOut
	case belljar.PhaseKilled:
		return event.RunKilled
	}
	return event.RunFailed
}

// recordEnded records the events of a run's end, and logs it.
func (s *recorder) recordEnded(r *Run, program string, last belljar.Run) {
	e := event.Event{
		Name: endEvent(last.Phase), Time: *last.FinishedAt, Caller: r.caller, Run: &last, Runtime: last.Runtime, Reason: string(last.ReasonCode),
	}
	if last.ReasonCode == belljar.ReasonCanceledByUser {
		e.Caller = fault.Actor(context.Cause(r.ctx), r.caller)
	}
	if last.StartedAt != nil {
		e.Took = last.FinishedAt.Sub(*last.StartedAt)
	}
	s.record(e)
	s.logEnded(r, program, last)
	if u := last.ResourceUsage; u != nil && u.LogBytes > 0 {
		s.count(event.LogBytes, last.Runtime, "", u.LogBytes)
	}
	if last.ReasonCode == belljar.ReasonQueueTTLExpired {
		s.count(event.QueueTTLExpired, last.Runtime, "queue_ttl_expired", 1)
	}
}

// logEnded logs one line about an ended run. A command may contain secrets, so the line has only the program's name, "shell", or the context.
func (s *recorder) logEnded(r *Run, program string, last belljar.Run) {
	level, why := outcome.Logged(last)
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("run_id", r.id), slog.String("user_id", r.owner), slog.String("runtime", last.Runtime), slog.String("image", last.BaseImage),
		slog.String("phase", string(last.Phase)), slog.String("reason_code", string(last.ReasonCode)),
		slog.String("request_id", r.caller.RequestID), slog.String("trace_id", r.caller.TraceID), slog.String("command", program),
	}
	if last.ExitCode != nil {
		attrs = append(attrs, slog.Int("exit_code", *last.ExitCode))
	}
	s.log.LogAttrs(context.Background(), level, "run ended", append(attrs, why...)...)
}

// count records an event that only the metrics use.
func (s *recorder) count(name, runtime, reason string, n int64) {
	s.record(event.Event{Name: name, Runtime: runtime, Reason: reason, Count: n})
}

// recordFiles counts the files of a request that have reached the sandbox.
func (s *recorder) recordFiles(runtime string, files []belljar.InlineFile) {
	if len(files) == 0 {
		return
	}
	e := event.Event{Name: event.InlineFiles, Runtime: runtime, Kind: "inline", Files: int64(len(files))}
	for _, f := range files {
		e.Count += int64(len(f.Content))
	}
	s.record(e)
}
