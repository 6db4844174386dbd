// Package thread is the thread API: a session for each thread of a conversation, under /thread and, if the operator wants
// it so, at the root.
//
//	POST create_session   GET get_session    POST execute        POST upload_file
//	POST download_file    GET list_files     POST cleanup        GET  health
//
// Bodies, statuses and texts are fixed by the API (docs/compatibility.md#thread-api): errors are flat objects with an error. The door has no state of its own but the
// order in which uploads to one session come; sessions are Belljar's, found by the scope thread:<thread_id> of whoever
// calls, and user_id is a label.
package thread

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Prefix is where the door stands.
const Prefix = "/thread"

// Options is what the door opens to. Engine and Auth are required.
type Options struct {
	Engine belljar.Engine
	// Auth finds out who calls; health needs nobody.
	Auth api.Authenticator
	// Bodies bounds what the JSON bodies of one user take up; nil is [api.JSONShares] of this door's own.
	Bodies *api.Shares
	// Guard looks at every command; nil lets all pass.
	Guard *Guard
	// Root serves the door at the root too.
	Root bool
	// MaxFileMB is how large an uploaded file may be (0 is 100), MaxFiles how many files may lie in a workspace that
	// more are uploaded to (0 is 1000), MaxWorkspaceMB how large a workspace is (0 is 500).
	MaxFileMB, MaxFiles, MaxWorkspaceMB int
	// Image of the sessions' sandboxes; "" is the server's.
	Image string
	// TempDir is where an upload lies until it is known to be small enough; "" is the system's.
	TempDir string
	// Room is asked before more of a user's upload is kept there, and may refuse it; nil does not.
	Room func(ctx context.Context, user string) error
	// Health tells what [health] says of the node; nil has no pool and no sessions.
	Health func() Node
	// WorkerID is the node's name; "" is worker1, as in the API.
	WorkerID string

	Events event.Sink
	Logger *slog.Logger
	// Now is the time; nil is the machine's.
	Now func() time.Time
}

// Node is how much of a node is in use.
type Node struct {
	PoolSize       int // sandboxes that are held ready when nothing is taken
	PoolAvailable  int
	ActiveSessions int
}

// Door answers requests. Make one with [New].
type Door struct {
	opts  Options
	begun time.Time
	turns turns
}

// New returns a door to an engine.
func New(o Options) (*Door, error) {
	switch {
	case o.Engine == nil:
		return nil, errors.New("thread: no engine")
	case o.Auth == nil:
		return nil, errors.New("thread: no authenticator")
	}
	for _, f := range []struct {
		field *int
		usual int
	}{{&o.MaxFileMB, 100}, {&o.MaxFiles, 1000}, {&o.MaxWorkspaceMB, 500}} {
		if *f.field == 0 {
			*f.field = f.usual
		}
	}
	if o.Bodies == nil {
		o.Bodies = api.JSONShares()
	}
	if o.WorkerID == "" {
		o.WorkerID = "worker1"
	}
	if o.Health == nil {
		o.Health = func() Node { return Node{} }
	}
	if o.Events == nil {
		o.Events = event.Sinks(nil)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Door{opts: o, begun: o.Now()}, nil
}

// Register puts the door's routes on a mux.
func (d *Door) Register(mux *http.ServeMux) {
	for _, r := range []struct {
		method, name string
		answer       func(*call)
	}{
		{"POST", "create_session", (*call).create}, {"GET", "get_session", (*call).get}, {"POST", "execute", (*call).execute},
		{"POST", "upload_file", (*call).upload}, {"POST", "download_file", (*call).download}, {"GET", "list_files", (*call).list},
		{"POST", "cleanup", (*call).cleanup},
	} {
		d.handle(mux, r.method, r.name, d.guarded(r.answer))
	}
	d.handle(mux, "GET", "health", d.health)
}

func (d *Door) handle(mux *http.ServeMux, method, name string, h http.HandlerFunc) {
	for _, prefix := range []string{Prefix, ""} {
		if prefix == "" && !d.opts.Root {
			continue
		}
		mux.HandleFunc(method+" "+prefix+"/"+name, h)
		mux.HandleFunc(prefix+"/"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			write(w, http.StatusMethodNotAllowed, fault{"error": "Method not allowed", "allowed": method})
		})
	}
}

// call is one request of somebody known.
type call struct {
	belljar.Service
	door   *Door
	w      http.ResponseWriter
	r      *http.Request
	caller belljar.Caller
}

// guarded lets in whom the authenticator knows.
func (d *Door) guarded(answer func(*call)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), r.Pattern)
		caller, err := d.opts.Auth.Authenticate(r)
		if err != nil {
			fail(w, r, err)
			return
		}
		if caller.Source == "" {
			caller.Source = "thread"
		}
		ctx := api.WithCaller(r.Context(), caller)
		caller = api.CallerOf(ctx)
		answer(&call{Service: d.opts.Engine.As(caller), door: d, w: w, r: r.WithContext(ctx), caller: caller})
	}
}
