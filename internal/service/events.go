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

// told records how a run ended.
func (s *Service) told(r *run, last belljar.Run) {
	name := map[belljar.Phase]string{
		belljar.PhaseCompleted: event.RunCompleted, belljar.PhaseFailed: event.RunFailed,
		belljar.PhaseTimedOut: event.RunTimedOut, belljar.PhaseKilled: event.RunKilled,
	}[last.Phase]
	e := event.Event{
		Name: name, Time: *last.FinishedAt, Caller: r.caller, Run: &last, Runtime: last.Runtime, Component: component,
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
