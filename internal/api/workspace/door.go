// Package workspace is the workspace API (docs/workspace.md): files, search, git, terminals and chats of one workspace, for front
// ends in a browser. It is served below /workspace, for any session of the caller below /workspace/{session_id}, and optionally at
// the root.
//
//	GET /api/tree        GET, PUT, DELETE /api/file     POST /api/file/{rename,move}   GET /api/search
//	GET /api/git/status  GET /api/git/diff              GET /api/git/show
//	GET, POST /api/sessions   GET /api/{config,project,capabilities}   POST /api/{login,logout}
//	WebSockets: /ws/pty, /ws/claude-stream
//	GET /healthz, /__meta/version, below /workspace only
//
// The API fixes fields, statuses and texts. Errors are {"detail": text}, and {"detail": [{loc, msg, type}]} for a request that
// lacks something. What holds the files and runs the programs is a [workspace.Source].
package workspace

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/workspace"
)

// Prefix is the path prefix of the workspace API.
const Prefix = "/workspace"

// Options configure a [Door]. Source, Auth, Sockets, Secret and Origin are required.
type Options struct {
	Source workspace.Source
	// Auth authenticates callers of HTTP routes, Sockets those of WebSockets, also by a token= in the query.
	Auth, Sockets api.Authenticator
	// User is the caller of a request without credentials that comes from this machine to a loopback name; "" refuses it.
	User string
	// Secret signs tokens: at least 32 bytes, the same after a restart. TokenTTL is their life; 0 means 30 min.
	Secret   []byte
	TokenTTL time.Duration
	// Templates are the programs that clients may start, by name; see [ParseTemplates].
	Templates Templates
	// ChatLifetime is the longest life of a chat's program; 0 means a day.
	ChatLifetime time.Duration
	// Origin reports whether the web page of a request, which has an Origin header, may use cookies here; Secure, whether the
	// request came by HTTPS.
	Origin, Secure func(r *http.Request) bool
	// OriginAllowed reports whether a web page may open a WebSocket with credentials of its own.
	OriginAllowed func(r *http.Request) bool
	// Connect may refuse a WebSocket, for example for a rate limit; nil refuses none.
	Connect func(r *http.Request) error
	// Trees and Searches limit the requests of one user; nil means no limit.
	Trees, Searches *api.Buckets
	// Bodies limits the memory for bodies of one user; nil means [api.JSONShares], for this door alone.
	Bodies *api.Shares
	// Root adds the routes at the root.
	Root bool
	// Version is that of the server.
	Version string
	Events  event.Sink
	Logger  *slog.Logger
	// PingEvery is the interval of pings; 0 means 20 s. WriteTimeout limits the write of one message; 0 means 30 s.
	PingEvery, WriteTimeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Door handles requests. Make one with [New].
type Door struct {
	opts   Options
	tokens *tokens
	drain  *api.Drain
	git    flights
	jar    jar
	chats  clients
	locks  locks
}

// New returns the door.
func New(o Options) (*Door, error) {
	switch {
	case o.Source == nil || o.Auth == nil || o.Sockets == nil || o.Origin == nil || o.OriginAllowed == nil:
		return nil, errors.New("workspace: no source, no authenticator or no rule for origins")
	case len(o.Secret) < 32:
		return nil, errors.New("workspace: the secret has fewer than 32 bytes")
	}
	for _, d := range []struct {
		field    *time.Duration
		fallback time.Duration
	}{
		{&o.TokenTTL, 30 * time.Minute}, {&o.ChatLifetime, MaxChatLifetime}, {&o.PingEvery, 20 * time.Second}, {&o.WriteTimeout, 30 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.fallback
		}
	}
	if o.Templates == nil {
		o.Templates = DefaultTemplates()
	}
	if o.Connect == nil {
		o.Connect = func(*http.Request) error { return nil }
	}
	if o.Secure == nil {
		o.Secure = func(r *http.Request) bool { return r.TLS != nil }
	}
	if o.Bodies == nil {
		o.Bodies = api.JSONShares()
	}
	if o.Events == nil {
		o.Events = event.Sinks{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Door{opts: o, tokens: newTokens(o.Secret, o.TokenTTL, o.Now), drain: api.NewDrain(), jar: jar{now: o.Now}, locks: newLocks()}, nil
}

// Close ends all WebSockets with code 1001 and waits for them. Terminals and chats live on.
func (d *Door) Close() error {
	d.drain.Close()
	return nil
}

// Register adds the door's routes to a mux.
func (d *Door) Register(mux *http.ServeMux) {
	mounts := []string{Prefix, Prefix + "/{session_id}"}
	if d.opts.Root {
		mounts = append(mounts, "")
	}
	allowed := map[string][]string{}
	for _, r := range []struct {
		method, path string
		handler      http.HandlerFunc
	}{
		{"GET", "/api/tree", d.http(d.opts.Trees, (*call).tree)}, {"GET", "/api/search", d.http(d.opts.Searches, (*call).search)},
		{"GET", "/api/file", d.http(nil, (*call).read)}, {"PUT", "/api/file", d.http(nil, (*call).write)},
		{"DELETE", "/api/file", d.http(nil, (*call).remove)}, {"POST", "/api/file/rename", d.http(nil, (*call).rename)},
		{"POST", "/api/file/move", d.http(nil, (*call).move)}, {"GET", "/api/git/status", d.http(nil, (*call).gitStatus)},
		{"GET", "/api/git/diff", d.http(nil, (*call).gitDiff)}, {"GET", "/api/git/show", d.http(nil, (*call).gitShow)},
		{"GET", "/api/sessions", d.http(nil, (*call).sessions)}, {"POST", "/api/sessions", d.http(nil, (*call).newSession)},
		{"GET", "/api/config", d.http(nil, (*call).config)}, {"GET", "/api/project", d.http(nil, (*call).project)},
		{"GET", "/api/capabilities", d.http(nil, (*call).capabilities)},
		{"POST", "/api/login", d.login}, {"POST", "/api/logout", d.logout},
		{"GET", "/ws/pty", d.socket((*call).pty, ptyError)}, {"GET", "/ws/claude-stream", d.socket((*call).chat, chatFailure)},
	} {
		allowed[r.path] = append(allowed[r.path], r.method)
		for _, mount := range mounts {
			mux.HandleFunc(r.method+" "+mount+r.path, r.handler)
		}
	}
	mux.HandleFunc("GET "+Prefix+"/healthz", d.meta(func(w http.ResponseWriter) {
		write(w, http.StatusOK, struct {
			Status string `json:"status"`
		}{"ok"})
	}))
	mux.HandleFunc("GET "+Prefix+"/__meta/version", d.meta(func(w http.ResponseWriter) {
		write(w, http.StatusOK, struct {
			Version string `json:"version"`
		}{workspace.APIVersion})
	}))
	for path, methods := range allowed {
		for _, mount := range mounts {
			mux.HandleFunc(mount+path, d.notAllowed(methods))
		}
	}
	mux.HandleFunc(Prefix+"/", func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), "ANY "+Prefix+"/")
		write(w, http.StatusNotFound, detail("Not Found"))
	})
}

func (d *Door) notAllowed(methods []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), "ANY "+r.Pattern)
		w.Header()["Allow"] = methods
		write(w, http.StatusMethodNotAllowed, detail("Method Not Allowed"))
	}
}

// call is one authenticated request, with its workspace.
type call struct {
	workspace.Workspace
	door   *Door
	caller belljar.Caller
	w      http.ResponseWriter
	r      *http.Request
}

// http wraps a handler, which writes all responses but errors.
func (d *Door) http(limit *api.Buckets, handler func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), r.Pattern)
		r, caller, err := d.identify(d.opts.Auth, r)
		if err != nil {
			fail(w, r, err)
			return
		}
		if wait := limit.Take(caller.ID); wait > 0 && !caller.Admin() {
			fail(w, r, tooMany(wait))
			return
		}
		c := &call{door: d, caller: caller, w: w, r: r}
		if c.Workspace, err = d.open(c); err == nil {
			err = handler(c)
		}
		if err != nil {
			fail(w, r, err)
		}
	}
}

// meta wraps an answer to a server that depends on this one, which compares versions first. It opens no workspace.
func (d *Door) meta(answer func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), r.Pattern)
		r, _, err := d.identify(d.opts.Auth, r)
		if err != nil {
			fail(w, r, err)
			return
		}
		w.Header().Set("X-Workspace-Api-Version", workspace.APIVersion)
		answer(w)
	}
}

// open opens the workspace of a request, and counts the time and the failures.
func (d *Door) open(c *call) (workspace.Workspace, error) {
	begun := time.Now()
	w, err := d.opts.Source.Open(c.r.Context(), c.caller, c.r.PathValue("session_id"))
	d.opts.Events.Record(event.Event{
		Name: event.WorkspaceOpened, Caller: c.caller, Component: "workspace", Kind: d.opts.Source.Mode(), Reason: string(belljar.CodeOf(err)),
		Took: time.Since(begun), Err: err,
	})
	return w, err
}
