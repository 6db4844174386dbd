// Package shell is the shell API, under /v1 (docs/compatibility.md#shell-api), and the shell route of the sandbox API:
//
//	POST   /v1/sessions                     GET  /v1/sessions            GET, DELETE /v1/sessions/{id}
//	POST   /v1/sessions/{id}/exec           POST /v1/sessions/{id}/exec/stream
//	POST   /v1/sessions/{id}/fs/write       GET  /v1/sessions/{id}/fs/read
//	GET    /v1/sessions/{id}/fs/list        DELETE /v1/sessions/{id}/fs/delete
//	POST   /api/v1/sandbox/sessions/{id}/shell
//
// A session has one shell, whose commands run one after the other and find what the ones before have left: directory,
// variables, functions, background jobs. Every command is a run, so that all routes of a run take its run_id too.
package shell

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Prefix is where the shell API is.
const Prefix = "/v1"

// Options is what the door opens to. Engine and Auth are required.
type Options struct {
	Engine belljar.Engine
	// Auth finds out who calls.
	Auth api.Authenticator
	// Bodies bounds what the bodies of one user take up; nil is [api.JSONShares] of this door's own.
	Bodies *api.Shares
	// WriteTimeout is how long the reader of a stream may take over an event; 0 is 30 s.
	WriteTimeout time.Duration
	// Logger hears what no client can be told; nil is silent.
	Logger *slog.Logger
}

// Door answers requests. Make one with [New].
type Door struct{ opts Options }

// New returns a door to an engine.
func New(o Options) (*Door, error) {
	switch {
	case o.Engine == nil:
		return nil, errors.New("shell: no engine")
	case o.Auth == nil:
		return nil, errors.New("shell: no authenticator")
	}
	if o.Bodies == nil {
		o.Bodies = api.JSONShares()
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Door{opts: o}, nil
}

// Register puts the door's routes on a mux.
func (d *Door) Register(mux *http.ServeMux) {
	const sessions, session = Prefix + "/sessions", Prefix + "/sessions/{id}"
	for _, r := range []struct {
		pattern string
		answer  func(*call) error
	}{
		{"POST " + sessions, (*call).create}, {"GET " + sessions, (*call).list},
		{"GET " + session, (*call).get}, {"DELETE " + session, (*call).destroy},
		{"POST " + session + "/exec", (*call).exec}, {"POST " + session + "/exec/stream", (*call).execStream},
		{"POST " + session + "/fs/write", (*call).write}, {"GET " + session + "/fs/read", (*call).read},
		{"GET " + session + "/fs/list", (*call).files}, {"DELETE " + session + "/fs/delete", (*call).remove},
		{"POST " + api.Prefix + "/sessions/{id}/shell", (*call).shell},
	} {
		mux.Handle(r.pattern, api.Guard(d.opts.Auth, d.handle(r.answer)))
	}
	mux.Handle(Prefix+"/", api.Guard(d.opts.Auth, api.Lost(mux, "")))
}

// call is one request of somebody known.
type call struct {
	belljar.Service
	door *Door
	w    http.ResponseWriter
	r    *http.Request
	id   string // of the session, if the path has one
}

// handle answers with what answer returns an error for; it has answered itself otherwise.
func (d *Door) handle(answer func(*call) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := api.CallerOf(r.Context())
		if caller.Source == "" {
			caller.Source = "shell"
			r = r.WithContext(api.WithCaller(r.Context(), caller))
		}
		c := &call{Service: d.opts.Engine.As(caller), door: d, w: w, r: r, id: r.PathValue("id")}
		if err := answer(c); err != nil {
			api.Fail(w, r, err)
		}
	})
}
