package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
)

// component is what the service calls itself in events.
const component = "orchestrator"

// emit records an event that happens now.
func (s *Service) emit(e event.Event) {
	e.Time, e.Component = s.clock.Now(), component
	s.opts.Events.Record(e)
}

// happened records an event of a run.
func (s *recorder) happened(name string, r *run, took time.Duration) {
	state := r.snapshot()
	s.events.Record(event.Event{
		Name: name, Time: s.clock.Now(), Caller: r.caller, Run: &state, Runtime: state.Runtime, Component: component, Took: took,
	})
}

// ended is the event of a run that ended in a phase.
func ended(p belljar.Phase) string {
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

// told records how a run ended.
func (s *recorder) told(r *run, last belljar.Run) {
	e := event.Event{
		Name: ended(last.Phase), Time: *last.FinishedAt, Caller: r.caller, Run: &last, Runtime: last.Runtime, Component: component,
		Reason: string(last.ReasonCode),
	}
	if last.StartedAt != nil {
		e.Took = last.FinishedAt.Sub(*last.StartedAt)
	}
	s.events.Record(e)
	s.logged(r, last)
	if u := last.ResourceUsage; u != nil && u.LogBytes > 0 {
		s.count(event.LogBytes, last.Runtime, "", u.LogBytes)
	}
	if last.ReasonCode == belljar.ReasonQueueTTLExpired {
		s.count(event.QueueTTLExpired, last.Runtime, "queue_ttl_expired", 1)
	}
}

// logged writes one line about a run that has ended. What it was told to run may be nobody's business, so only the
// program's name is in it.
func (s *recorder) logged(r *run, last belljar.Run) {
	ctx := context.Background()
	if !s.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	attrs := []slog.Attr{
		slog.String("run_id", r.id), slog.String("user_id", r.owner), slog.String("runtime", last.Runtime), slog.String("image", last.BaseImage),
		slog.String("phase", string(last.Phase)), slog.String("reason_code", string(last.ReasonCode)),
		slog.String("request_id", r.caller.RequestID), slog.String("trace_id", r.caller.TraceID),
	}
	if len(last.Command) > 0 {
		attrs = append(attrs, slog.String("command", last.Command[0]))
	}
	if last.ExitCode != nil {
		attrs = append(attrs, slog.Int("exit_code", *last.ExitCode))
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "run ended", attrs...)
}

// count records what only the metrics care for.
func (s *recorder) count(name, runtime, reason string, n int64) {
	s.events.Record(event.Event{
		Name: name, Time: s.clock.Now(), Runtime: runtime, Component: component, Reason: reason, Count: n,
	})
}

// denied records a request that was refused for what its caller may do.
func (s *Service) denied(caller belljar.Caller, err error) {
	switch code := belljar.CodeOf(err); code {
	case belljar.CodePolicyDenied, belljar.CodeForbidden, belljar.CodeQuotaExceeded:
		s.opts.Events.Record(event.Event{
			Name: event.Denied, Time: s.clock.Now(), Caller: caller, Component: component, Reason: string(code), Err: err,
		})
	}
}

// refused is the error that a caller gets for something that failed. A refusal goes on record.
func (s *Service) refused(caller belljar.Caller, doing string, err error) error {
	s.denied(caller, err)
	return fault.As(doing, err)
}
