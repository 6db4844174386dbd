package service

import (
	"cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
)

// component is the service's name in events.
const component = "orchestrator"

// emit records an event of the service. An event without a time gets the current time.
func (s *Service) emit(e event.Event) {
	if e.Component = cmp.Or(e.Component, component); e.Time.IsZero() {
		e.Time = s.clock.Now()
	}
	s.opts.Events.Record(e)
}

// denied records a request that was refused because the caller lacks permission.
func (s *Service) denied(caller belljar.Caller, err error) {
	switch code := belljar.CodeOf(err); code {
	case belljar.CodePolicyDenied, belljar.CodeForbidden, belljar.CodeQuotaExceeded:
		s.emit(event.Event{Name: event.Denied, Caller: caller, Reason: string(code), Err: err})
	}
}

// refused converts a failure to the error for the caller. It records a refusal.
func (s *Service) refused(caller belljar.Caller, doing string, err error) error {
	s.denied(caller, err)
	return fault.As(doing, err)
}

// orRefused returns made or, after a failure, the error of [Service.refused].
func orRefused[T any](v view, doing string, made T, err error) (T, error) {
	if err != nil {
		var none T
		return none, v.service.refused(v.caller, doing, err)
	}
	return made, nil
}
