package service

import (
	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
)

// component is what the service calls itself in events.
const component = "orchestrator"

// emit records an event of the service. One without a time happens now.
func (s *Service) emit(e event.Event) {
	if e.Component = component; e.Time.IsZero() {
		e.Time = s.clock.Now()
	}
	s.opts.Events.Record(e)
}

// denied records a request that was refused for what its caller may do.
func (s *Service) denied(caller belljar.Caller, err error) {
	switch code := belljar.CodeOf(err); code {
	case belljar.CodePolicyDenied, belljar.CodeForbidden, belljar.CodeQuotaExceeded:
		s.emit(event.Event{Name: event.Denied, Caller: caller, Reason: string(code), Err: err})
	}
}

// refused is the error that a caller gets for something that failed. A refusal goes on record.
func (s *Service) refused(caller belljar.Caller, doing string, err error) error {
	s.denied(caller, err)
	return fault.As(doing, err)
}

// orRefused returns what a caller gets: something that was made, or [Service.refused].
func orRefused[T any](v view, doing string, made T, err error) (T, error) {
	if err != nil {
		var none T
		return none, v.service.refused(v.caller, doing, err)
	}
	return made, nil
}
