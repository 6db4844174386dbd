package client

import (
	"context"
	"net/http"

	"github.com/belljar/belljar"
)

// contexts implements [belljar.Contexts].
type contexts struct{ c *Client }

var _ belljar.Contexts = contexts{}

// Contexts gives access to the contexts of the caller's sessions. [belljar.RunSpec.Context] executes code in one.
func (c *Client) Contexts() belljar.Contexts { return contexts{c} }

// Create starts a context.
func (x contexts) Create(ctx context.Context, sessionID string, spec belljar.ContextSpec) (belljar.Context, error) {
	var made belljar.Context
	err := x.post(ctx, spec, &made, false, "sessions", sessionID, "contexts")
	return made, err
}

// List returns a session's contexts.
func (x contexts) List(ctx context.Context, sessionID string) ([]belljar.Context, error) {
	return items[belljar.Context](ctx, x.c, nil, "sessions", sessionID, "contexts")
}

// Complete returns the possible continuations of code.
func (x contexts) Complete(ctx context.Context, sessionID, name, code string) (belljar.Completion, error) {
	var c belljar.Completion
	err := x.post(ctx, map[string]string{"code": code}, &c, false, "sessions", sessionID, "contexts", name, "complete")
	return c, err
}

// Restart ends a context's interpreter, and starts a new one. It is not retried after a broken connection.
func (x contexts) Restart(ctx context.Context, sessionID, name string) (belljar.Context, error) {
	var c belljar.Context
	err := x.post(ctx, struct{}{}, &c, true, "sessions", sessionID, "contexts", name, "restart")
	return c, err
}

// Delete ends a context.
func (x contexts) Delete(ctx context.Context, sessionID, name string) error {
	return x.c.ask(ctx, request{method: http.MethodDelete, path: route("sessions", sessionID, "contexts", name), longer: startup(0)}, nil)
}

// post sends a request, which is idempotent unless once is set.
func (x contexts) post(ctx context.Context, in, out any, once bool, path ...string) error {
	return x.c.ask(ctx, request{method: http.MethodPost, path: route(path...), send: in, once: once, longer: startup(0)}, out)
}
