package api

import (
	"net/http"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// AdmitOperator reports whether the caller is an operator. It responds to others with message, and records the refusal as the
// service does.
func AdmitOperator(events event.Sink, w http.ResponseWriter, r *http.Request, message string) bool {
	caller := CallerOf(r.Context())
	if caller.Admin() {
		return true
	}
	err := &belljar.Error{Code: belljar.CodeForbidden, Message: message}
	events.Record(event.Event{Name: event.Denied, Caller: caller, Component: "rest", Reason: string(err.Code), Err: err})
	Fail(w, r, err)
	return false
}
