// Package api is what the doors over HTTP share: the [Edge] that every request passes, who calls, how fast, and how a
// failure is told. Each door is a child package. They are put together like this, outermost first:
//
//	edge.Wrap( mux of the doors, each behind Guard(limits.Guarded(authenticator), …) )
package api

import (
	"context"
	"net/http"

	"github.com/belljar/belljar"
)

// Prefix is where the sandbox API is.
const Prefix = "/api/v1/sandbox"

// Authenticator finds out who sent a request. The error is [belljar.CodeUnauthorized], or [belljar.CodeRateLimited] for
// one who tries too often; the request's answer says no more than that.
type Authenticator interface {
	Authenticate(r *http.Request) (belljar.Caller, error)
}

type callerKey struct{}

// WithCaller returns ctx with who calls. Where the request came from is added as far as the [Edge] knows and c does
// not say; the request's log line and metrics carry the caller from now on.
func WithCaller(ctx context.Context, c belljar.Caller) context.Context {
	if rec := recordOf(ctx); rec != nil {
		rec.complete(&c)
		rec.caller.Store(&c)
	}
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who calls; a stranger if nobody has been found out, with what the [Edge] knows of him.
func CallerOf(ctx context.Context) belljar.Caller {
	c, ok := ctx.Value(callerKey{}).(belljar.Caller)
	if rec := recordOf(ctx); !ok && rec != nil {
		rec.complete(&c)
	}
	return c
}

// Guard lets only requests of somebody known through to next, which finds him by [CallerOf].
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
