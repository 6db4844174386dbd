// Package api is what the doors over HTTP share: who calls, how a failure is told. Each door is a child package.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/belljar/belljar"
)

// Prefix is where S0's API stands.
const Prefix = "/api/v1/sandbox"

// Authenticator finds out who sent a request. The error is [belljar.CodeUnauthorized]; the request's answer says no more
// than that.
type Authenticator interface {
	Authenticate(r *http.Request) (belljar.Caller, error)
}

type callerKey struct{}

// WithCaller returns ctx with who calls.
func WithCaller(ctx context.Context, c belljar.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who calls; a stranger if nobody has been found out.
func CallerOf(ctx context.Context) belljar.Caller {
	c, _ := ctx.Value(callerKey{}).(belljar.Caller)
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
		next.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), c)))
	})
}

// Fail answers a request with an error: S0's envelope, or RFC 7807 if the client asks for application/problem+json.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	e := Public(err)
	body, contentType := any(envelope{e}), "application/json"
	if strings.Contains(r.Header.Get("Accept"), "application/problem+json") {
		body, contentType = problem(e), "application/problem+json"
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(e.Code.Info().HTTP)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone needs no answer
}

// Public is err as a stranger may see it: a [belljar.Error] as it is, anything else as internal without its text.
func Public(err error) *belljar.Error {
	var e *belljar.Error
	if errors.As(err, &e) && e.Code != belljar.CodeInternal {
		return e
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "internal error"}
}

type envelope struct {
	Error *belljar.Error `json:"error"`
}

// problem is S0 §26's mapping.
func problem(e *belljar.Error) map[string]any {
	extensions := map[string]any{"code": e.Code}
	for name, value := range e.Details {
		extensions[name] = value
	}
	if e.Hint != "" {
		extensions["hint"] = e.Hint
	}
	return map[string]any{
		"type": "urn:belljar:error:" + string(e.Code), "title": strings.ReplaceAll(string(e.Code), "_", " "),
		"detail": e.Message, "status": e.Code.Info().HTTP, "extensions": extensions,
	}
}
