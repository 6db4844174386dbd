// Package thread is the thread API: a session for each thread of a conversation, under /thread and optionally at the
// root.
//
//	POST create_session   GET get_session    POST execute        POST upload_file
//	POST download_file    GET list_files     POST cleanup        GET  health
//
// The API fixes bodies, statuses and texts (docs/compatibility.md#thread-api): errors are flat objects with an error. The
// door's only state is the order of uploads to one session. It finds sessions by the caller's scope thread:<thread_id>;
// user_id is a label.
package thread

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/keylock"
)

// Prefix is the path prefix of the thread API.
const Prefix = "/thread"

// Options configure a [Door]. Engine and Auth are required.
type Options struct {
	Engine belljar.Engine
	// Auth authenticates callers. The route health is public.
	Auth api.Authenticator
	// Bodies limits the memory for JSON bodies of one user; nil means [api.JSONShares], for this door alone.
	Bodies *api.Shares
	// Guard checks every command; nil allows all.
	Guard *Guard
	// Root adds the routes at the root.
	Root bool
	// MaxFileMB limits an uploaded file (0 means 100), MaxFiles the files in a workspace before an upload (0 means 1000),
	// MaxWorkspaceMB a workspace (0 means 500).
	MaxFileMB, MaxFiles, MaxWorkspaceMB int
	// Idle is the time after which a session without timeout_minutes ends; 0 means 30 minutes.
	Idle time.Duration
	// Timeout is the time of a command without a timeout; 0 means [DefaultTimeout].
	Timeout time.Duration
	// Image of the sessions' sandboxes; "" means the server's default.
	Image string
	// TempDir is the folder for uploads until they are complete; "" means the system's.
	TempDir string
	// Room is called before more of a user's upload is stored in TempDir; its error refuses the upload. nil never refuses.
	Room func(ctx context.Context, user string) error
	// Health returns the figures for the route health; nil means zeros.
	Health func() Node

	Events event.Sink
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Node is the load of a node.
type Node struct {
	PoolSize       int // blanks in the pool when none is in use
	PoolAvailable  int
	ActiveSessions int
}

// Door handles requests. Make one with [New].
type Door struct {
	opts    Options
	begun   time.Time
	uploads keylock.Locks[string] // by session: only one upload at a time changes a session, so that two cannot pass the same limit together
}

// New returns a door to o.Engine.
func New(o Options) (*Door, error) {
	switch {
	case o.Engine == nil:
		return nil, errors.New("thread: no engine")
	case o.Auth == nil:
		return nil, errors.New("thread: no authenticator")
	}
	o.MaxFileMB = cmp.Or(o.MaxFileMB, 100)
	o.MaxFiles = cmp.Or(o.MaxFiles, 1000)
	o.MaxWorkspaceMB = cmp.Or(o.MaxWorkspaceMB, 500)
	o.Idle = cmp.Or(o.Idle, DefaultIdle)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Bodies = cmp.Or(o.Bodies, api.JSONShares())
	if o.Health == nil {
		o.Health = func() Node { return Node{} }
	}
	if o.Events == nil {
		o.Events = event.Sinks(nil)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Door{opts: o, begun: o.Now()}, nil
}

// Register adds the door's routes to a mux.
func (d *Door) Register(mux *http.ServeMux) {
	for _, r := range []struct {
		method, name string
		handler      func(*call)
	}{
		{"POST", "create_session", (*call).create}, {"GET", "get_session", (*call).get}, {"POST", "execute", (*call).execute},
		{"POST", "upload_file", (*call).upload}, {"POST", "download_file", (*call).download}, {"GET", "list_files", (*call).list},
		{"POST", "cleanup", (*call).cleanup},
	} {
		d.handle(mux, r.method, r.name, d.guarded(r.handler))
	}
	d.handle(mux, "GET", "health", d.health)
	mux.HandleFunc(Prefix+"/", d.guarded(func(c *call) {
		api.WriteJSON(c.w, http.StatusNotFound, fault{"error": "Not found", "hint": "GET /openapi.json lists every path"})
	}))
}

func (d *Door) handle(mux *http.ServeMux, method, name string, h http.HandlerFunc) {
	for _, prefix := range []string{Prefix, ""} {
		if prefix == "" && !d.opts.Root {
			continue
		}
		mux.HandleFunc(method+" "+prefix+"/"+name, h)
		mux.HandleFunc(prefix+"/"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			api.WriteJSON(w, http.StatusMethodNotAllowed, fault{"error": "Method not allowed", "allowed": method})
		})
	}
}

// call is one authenticated request.
type call struct {
	service belljar.Service
	door    *Door
	w       http.ResponseWriter
	r       *http.Request
	caller  belljar.Caller
}

// guarded requires authentication.
func (d *Door) guarded(handler func(*call)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), r.Pattern)
		caller, err := d.opts.Auth.Authenticate(r)
		if err != nil {
			fail(w, r, err)
			return
		}
		caller.Source = cmp.Or(caller.Source, "thread")
		ctx := api.WithCaller(r.Context(), caller)
		caller = api.CallerOf(ctx)
		handler(&call{service: d.opts.Engine.As(caller), door: d, w: w, r: r.WithContext(ctx), caller: caller})
	}
}
