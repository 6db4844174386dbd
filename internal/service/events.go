package service

import (
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// component is what the service calls itself in events.
const component = "orchestrator"

// happened records an event of a run.
func (s *Service) happened(name string, r *run, took time.Duration) {
	state := r.snapshot()
	s.opts.Events.Record(event.Event{
		Name: name, Time: s.clock.Now(), Caller: r.caller, Run: &state, Runtime: state.Runtime, Component: component, Took: took,
	})
}

// ended is what S0 calls the event of a run that ended in a phase.
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
func (s *Service) told(r *run, last belljar.Run) {
	e := event.Event{
		Name: ended(last.Phase), Time: *last.FinishedAt, Caller: r.caller, Run: &last, Runtime: last.Runtime, Component: component,
		Reason: string(last.ReasonCode),
	}
	if last.StartedAt != nil {
		e.Took = last.FinishedAt.Sub(*last.StartedAt)
	}
	s.opts.Events.Record(e)
	if u := last.ResourceUsage; u != nil && u.LogBytes > 0 {
		s.count(event.LogBytes, last.Runtime, "", u.LogBytes)
	}
	if last.ReasonCode == belljar.ReasonQueueTTLExpired {
		s.count(event.QueueTTLExpired, last.Runtime, "queue_ttl_expired", 1)
	}
}

// count records what only the metrics care for.
func (s *Service) count(name, runtime, reason string, n int64) {
	s.opts.Events.Record(event.Event{
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
