package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/belljar/belljar"
)

// record is the edge's data of one request. It is in the context, so that inner handlers can add the caller and the
// route to the log line that the edge writes at the end.
type record struct {
	requestID string
	traceID   string
	address   string // of the client, without its port
	scheme    string // http | https, as the client sees it
	source    string
	model     string
	contextID string
	log       *slog.Logger
	body      *body // nil if the request has none

	cancel context.CancelCauseFunc // of the request's context
	use    *Use                    // of its credentials; nil if they cannot be revoked
	leave  []func()                // stop counting the request as in progress
	more   func() error            // counts one more request of the caller; nil if that has no limit

	caller atomic.Pointer[belljar.Caller]
	route  atomic.Pointer[string]
	reads  atomic.Bool // the request changes nothing, whatever its method
	held   []func()    // release what the answer reserves until it is encoded
}

type recordKey struct{}

func recordOf(ctx context.Context) *record {
	rec, _ := ctx.Value(recordKey{}).(*record)
	return rec
}

// OnlyReads marks a request that changes nothing, although its method is POST: a client may repeat it.
func OnlyReads(ctx context.Context) {
	if rec := recordOf(ctx); rec != nil {
		rec.reads.Store(true)
	}
}

// encoded releases what the answer has reserved.
func (rec *record) encoded() {
	for _, release := range rec.held {
		release()
	}
	rec.held = nil
}

// end ends the request, since its credentials were revoked.
func (rec *record) end() { rec.cancel(errRevoked) }

// complete fills in the fields of c that are empty.
func (rec *record) complete(c *belljar.Caller) {
	c.RequestID = cmp.Or(c.RequestID, rec.requestID)
	c.TraceID = cmp.Or(c.TraceID, rec.traceID)
	c.Address = cmp.Or(c.Address, rec.address)
	c.Source = cmp.Or(c.Source, rec.source)
	c.Model = cmp.Or(c.Model, rec.model)
	c.ContextID = cmp.Or(c.ContextID, rec.contextID)
}

// attrs are the fields of every log line about the request.
func (rec *record) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("request_id", rec.requestID)}
	if rec.traceID != "" {
		attrs = append(attrs, slog.String("trace_id", rec.traceID))
	}
	if c := rec.caller.Load(); c != nil && c.ID != "" {
		attrs = append(attrs, slog.String("user_id", c.ID))
	}
	return attrs
}

// Route sets the request's route, such as "GET /things/{id}", for the log and the metrics. Doors whose routes are
// [http.ServeMux] patterns need not call it.
func Route(ctx context.Context, route string) {
	if rec := recordOf(ctx); rec != nil {
		rec.route.Store(&route)
	}
}

// noteRoute takes the route from the pattern that the mux matched.
func noteRoute(r *http.Request) {
	rec := recordOf(r.Context())
	if rec == nil || r.Pattern == "" || rec.route.Load() != nil {
		return
	}
	if r.Pattern == "/" || strings.HasSuffix(r.Pattern, "/{$}") && r.URL.Path != strings.TrimSuffix(r.Pattern, "{$}") {
		return // a catch-all is not a route
	}
	route := r.Pattern
	if !strings.Contains(route, " ") {
		route = r.Method + " " + route
	}
	rec.route.Store(&route)
}
