// Package api has what the HTTP doors share: the [Edge] that every request passes, authentication, rate limits and
// error responses. Each door is a child package. The layers are, outermost first:
//
//	edge.Wrap( mux of the doors, each wrapped in Guard(limits.Guarded(authenticator), …) )
package api

import (
	"context"
	"net/http"

	"github.com/belljar/belljar"
)

// Prefix is the path prefix of the sandbox API.
const Prefix = "/api/v1/sandbox"

// Authenticator identifies the caller of a request. The error is [belljar.CodeUnauthorized], or
// [belljar.CodeRateLimited] after too many attempts; the response gives no further reason.
type Authenticator interface {
	Authenticate(r *http.Request) (belljar.Caller, error)
}

type callerKey struct{}

// WithCaller returns ctx with the caller c. Fields of c about the request's origin that are empty are filled in by the
// [Edge]. From now on the request's log line and metrics carry the caller.
func WithCaller(ctx context.Context, c belljar.Caller) context.Context {
	if rec := recordOf(ctx); rec != nil {
		rec.complete(&c)
		rec.caller.Store(&c)
	}
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller. Before authentication it has no id, only the fields that the [Edge] fills in.
func CallerOf(ctx context.Context) belljar.Caller {
	c, ok := ctx.Value(callerKey{}).(belljar.Caller)
	if rec := recordOf(ctx); !ok && rec != nil {
		rec.complete(&c)
	}
	return c
}

// Guard passes only authenticated requests to next, which gets the caller from [CallerOf].
func Guard(a Authenticator, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := a.Authenticate(r)
		if err != nil {
			Fail(w, r, err)
			return
		}
		r = r.WithContext(WithCaller(r.Context(), c))
		defer noteRoute(r)
		next.ServeHTTP(w, r)
	})
}
