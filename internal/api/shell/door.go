// Package shell is the shell API, under /v1 (docs/compatibility.md#shell-api), and the shell route of the sandbox API:
//
//	POST   /v1/sessions                     GET  /v1/sessions            GET, DELETE /v1/sessions/{id}
//	POST   /v1/sessions/{id}/exec           POST /v1/sessions/{id}/exec/stream
//	POST   /v1/sessions/{id}/fs/write       GET  /v1/sessions/{id}/fs/read
//	GET    /v1/sessions/{id}/fs/list        DELETE /v1/sessions/{id}/fs/delete
//	POST   /api/v1/sandbox/sessions/{id}/shell
//
// A session has one shell. Its commands run one at a time and share its state: directory, variables, functions,
// background jobs. Every command is a run, so all routes of runs accept its run_id.
package shell

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Prefix is the path prefix of the shell API.
const Prefix = "/v1"

// Options configure a [Door]. Engine and Auth are required.
type Options struct {
	Engine belljar.Engine
	// Auth authenticates callers.
	Auth api.Authenticator
	// Bodies limits the memory for bodies of one user, and Lists their large lists; nil means [api.JSONShares] and [api.ListShares].
	Bodies, Lists *api.Shares
}

// Door handles requests. Make one with [New].
type Door struct{ opts Options }

// New returns a door to o.Engine.
func New(o Options) (*Door, error) {
	switch {
	case o.Engine == nil:
		return nil, errors.New("shell: no engine")
	case o.Auth == nil:
		return nil, errors.New("shell: no authenticator")
	}
	o.Bodies, o.Lists = cmp.Or(o.Bodies, api.JSONShares()), cmp.Or(o.Lists, api.ListShares())
	return &Door{opts: o}, nil
}

// Register adds the door's routes to a mux.
func (d *Door) Register(mux *http.ServeMux) {
	const sessions, session = Prefix + "/sessions", Prefix + "/sessions/{id}"
	for _, r := range []struct {
		pattern string
		handler func(*call) error
	}{
		{"POST " + sessions, (*call).create}, {"GET " + sessions, (*call).list},
		{"GET " + session, (*call).get}, {"DELETE " + session, (*call).destroy},
		{"POST " + session + "/exec", (*call).exec}, {"POST " + session + "/exec/stream", (*call).execStream},
		{"POST " + session + "/fs/write", (*call).write}, {"GET " + session + "/fs/read", (*call).read},
		{"GET " + session + "/fs/list", (*call).files}, {"DELETE " + session + "/fs/delete", (*call).remove},
	} {
		mux.Handle(r.pattern, api.Guard(sourced{d.opts.Auth}, d.handle(r.handler)))
	}
	mux.Handle("POST "+api.Prefix+"/sessions/{id}/shell", api.Guard(d.opts.Auth, d.handle((*call).shell)))
	mux.Handle(Prefix+"/", api.Guard(d.opts.Auth, api.NoRoute(mux, "")))
}

// sourced names the shell API as the source of the requests that name none.
type sourced struct{ api.Authenticator }

// Authenticate implements [api.Authenticator].
func (s sourced) Authenticate(r *http.Request) (belljar.Caller, error) {
	caller, err := s.Authenticator.Authenticate(r)
	if caller.Source == "" && r.Header.Get("X-Belljar-Source") == "" {
		caller.Source = "shell"
	}
	return caller, err
}

// call is one authenticated request.
type call struct {
	belljar.Service
	door *Door
	w    http.ResponseWriter
	r    *http.Request
	id   string // of the session, if the path has one
}

// handle responds with the error of handler, which writes all other responses itself.
func (d *Door) handle(handler func(*call) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{Service: d.opts.Engine.As(api.CallerOf(r.Context())), door: d, w: w, r: r, id: r.PathValue("id")}
		if err := handler(c); err != nil {
			api.Fail(w, r, err)
		}
	})
}
