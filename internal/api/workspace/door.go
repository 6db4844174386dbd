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
// The API fixes fields, statuses and texts. Errors are {"detail": text}, and {"detail": [{loc, msg, type}]} for missing or wrong
// parameters. A [workspace.Source] holds the files and runs the programs.
package workspace

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/socket"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/keylock"
	"github.com/belljar/belljar/internal/workspace"
)

// maxMessage limits a client's message, in bytes.
const maxMessage = 8 << 20

// Prefix is the path prefix of the workspace API.
const Prefix = "/workspace"

// Options configure a [Door]. All are required but User, Trees, Searches, Root, Version and Now.
type Options struct {
	Source workspace.Source
	// Auth authenticates callers of HTTP routes, Sockets those of WebSockets, also by a token= in the query.
	Auth, Sockets api.Authenticator
	// User is the caller of a request without credentials that comes from this machine and names a loopback host; "" refuses such
	// requests.
	User string
	// Secret signs tokens: at least 32 bytes, the same after a restart. TokenTTL is their lifetime.
	Secret   []byte
	TokenTTL time.Duration
	// Templates are the programs that clients may start, by name; see [ParseTemplates].
	Templates Templates
	// ChatLifetime is the maximum lifetime of a chat's program, and of the door's own commands.
	ChatLifetime time.Duration
	// Origin reports whether the web page of a request, which has an Origin header, may use cookies here; Secure, whether the
	// request came by HTTPS.
	Origin, Secure func(r *http.Request) bool
	// OriginAllowed reports whether a web page may open a WebSocket with credentials of its own.
	OriginAllowed func(r *http.Request) bool
	// Connect may refuse a WebSocket, for example for a rate limit.
	Connect func(r *http.Request) error
	// Trees and Searches limit the requests of one user; nil means no limit.
	Trees, Searches *api.Buckets
	// Bodies limits the memory for bodies of one user.
	Bodies *api.Shares
	// Root adds the routes at the root.
	Root bool
	// Version is the server's version.
	Version string
	Events  event.Sink
	Logger  *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Door handles requests. Make one with [New].
type Door struct {
	opts    Options
	tokens  *socket.Tokens
	sockets *socket.Server
	maxFile int64 // bytes of a file that one request reads or writes
	git     flights
	gits    *api.Shares           // of one user's requests for git: gitAtOnce
	locks   keylock.Locks[string] // by the id of a chat, a pending session, or a session in which a chat begins
	inputs  keylock.Locks[string] // by the id of a chat's run: held while a line is written to its program
	cut     sync.Map              // ids of chats' runs whose input ends within a line: few, so they are kept
	set     sync.Map              // options by ids of chats' runs: what control messages have set in their programs

	mu       sync.Mutex
	clients  map[string]int    // by chat id
	starting map[string]string // sessions, by the ids of chats whose program starts, or is being replaced
	logins   map[string]login  // by cookie
}

// New returns the door.
func New(o Options) (*Door, error) {
	switch {
	case o.Source == nil || o.Auth == nil || o.Sockets == nil || o.Templates == nil || o.Bodies == nil || o.Events == nil || o.Logger == nil,
		o.Origin == nil || o.Secure == nil || o.OriginAllowed == nil || o.Connect == nil, o.TokenTTL <= 0 || o.ChatLifetime <= 0:
		return nil, errors.New("workspace: an option is missing")
	case len(o.Secret) < 32:
		return nil, errors.New("workspace: the secret has fewer than 32 bytes")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Door{opts: o, maxFile: 5 << 20, gits: api.NewShares(gitAtOnce, gitWait), clients: map[string]int{}, starting: map[string]string{}, logins: map[string]login{}}
	d.tokens = &socket.Tokens{
		Sealer: api.NewCipher(o.Secret, "w1.", "belljar workspace session, version 1"), Audience: "belljar-workspace", TTL: o.TokenTTL, Now: o.Now,
	}
	d.sockets = socket.New(socket.Options{
		Auth: callers{d, o.Sockets}, OriginAllowed: o.OriginAllowed, Connect: o.Connect, Fail: fail, Kind: "workspace", What: "a workspace",
		MaxMessage: maxMessage, Renew: o.TokenTTL / 2, PingEvery: 20 * time.Second, Events: o.Events, Logger: o.Logger,
		TryAgain: []belljar.Code{belljar.CodeRuntimeUnavailable, belljar.CodeQuotaExceeded, belljar.CodeRateLimited},
	})
	return d, nil
}

// Close ends all WebSockets with code 1001 and waits for them. Terminals and chats continue to run.
func (d *Door) Close() error { return d.sockets.Close() }

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
		{"GET", "/api/tree", d.http(d.opts.Trees, at((*call).tree, "."))}, {"GET", "/api/search", d.http(d.opts.Searches, at((*call).search, "."))},
		{"GET", "/api/file", d.http(nil, at((*call).read))}, {"PUT", "/api/file", d.http(nil, at((*call).write))},
		{"DELETE", "/api/file", d.http(nil, at((*call).remove))}, {"POST", "/api/file/rename", d.http(nil, (*call).rename)},
		{"POST", "/api/file/move", d.http(nil, (*call).move)}, {"GET", "/api/git/status", d.http(nil, (*call).gitStatus)},
		{"GET", "/api/git/diff", d.http(nil, at((*call).gitDiff))}, {"GET", "/api/git/show", d.http(nil, at((*call).gitShow))},
		{"GET", "/api/sessions", d.http(nil, (*call).sessions)}, {"POST", "/api/sessions", d.http(nil, (*call).newSession)},
		{"GET", "/api/config", d.http(nil, (*call).config)}, {"GET", "/api/project", d.http(nil, (*call).project)},
		{"GET", "/api/capabilities", d.http(nil, (*call).capabilities)},
		{"POST", "/api/login", d.logIn}, {"POST", "/api/logout", d.logOut},
		{"GET", "/ws/pty", d.socket((*call).pty, ptyDialect{}.Failed)}, {"GET", "/ws/claude-stream", d.socket((*call).chat, chatFailed)},
	} {
		if allowed[r.path] = append(allowed[r.path], r.method); r.method == http.MethodGet {
			allowed[r.path] = append(allowed[r.path], http.MethodHead)
		}
		for _, mount := range mounts {
			mux.HandleFunc(r.method+" "+mount+r.path, r.handler)
		}
	}
	for path, answer := range map[string]any{
		"/healthz": struct {
			Status string `json:"status"`
		}{"ok"},
		"/__meta/version": struct {
			Version string `json:"version"`
		}{workspace.APIVersion},
	} {
		mux.HandleFunc("GET "+Prefix+path, d.meta(answer))
		mux.HandleFunc(Prefix+path, notAllowed([]string{http.MethodGet, http.MethodHead}))
	}
	for path, methods := range allowed {
		for _, mount := range mounts {
			mux.HandleFunc(mount+path, notAllowed(methods))
		}
	}
	mux.HandleFunc(Prefix+"/", func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), "ANY "+Prefix+"/")
		write(w, http.StatusNotFound, detailed{"Not Found"})
	})
}

func notAllowed(methods []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), "ANY "+r.Pattern)
		w.Header().Set("Allow", strings.Join(methods, ", "))
		write(w, http.StatusMethodNotAllowed, detailed{"Method Not Allowed"})
	}
}

// call is one authenticated request, with its workspace.
type call struct {
	workspace.Workspace
	door   *Door
	caller belljar.Caller
	w      http.ResponseWriter
	r      *http.Request
	sent   []func() // release what the answer has reserved
}

// reserve reserves n of the user's share for the answer, until it is encoded.
func reserve(c *call, of *api.Shares, n int64) error {
	release, err := of.ForAnswer(c.r.Context(), n)
	if err == nil {
		c.sent = append(c.sent, release)
	}
	return err
}

// call returns the call of a request. Its workspace is not open yet.
func (d *Door) call(w http.ResponseWriter, r *http.Request) (*call, error) {
	api.Route(r.Context(), r.Pattern)
	caller, err := callers{d, d.opts.Auth}.Authenticate(r)
	if err == nil {
		r = r.WithContext(api.WithCaller(r.Context(), caller))
	}
	return &call{door: d, caller: api.CallerOf(r.Context()), w: w, r: r}, err
}

// http wraps a handler, which returns the response's body.
func (d *Door) http(limit *api.Buckets, handler func(*call) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := d.call(w, r)
		defer func() {
			for _, release := range c.sent {
				release()
			}
		}()
		if err == nil && !c.caller.Admin() {
			err = api.Exceeded(limit.Take(c.caller.ID), "route")
		}
		if err == nil {
			err = c.open()
		}
		var v any
		if err == nil {
			v, err = handler(c)
		}
		if err != nil {
			fail(w, c.r, err)
		} else if t, ok := v.(tagged); ok {
			c.writeTagged(t.v)
		} else {
			write(w, http.StatusOK, v)
		}
	}
}

// at wraps a handler of a path in the query. fallback is as in [call.query].
func at(handler func(*call, string) (any, error), fallback ...string) func(*call) (any, error) {
	return func(c *call) (any, error) {
		p, err := c.query("path", fallback...)
		if err == nil {
			p, err = place(p)
		}
		if err != nil {
			return nil, err
		}
		return handler(c, p)
	}
}

// socket wraps a function that attaches a WebSocket. failed returns the message for an error.
func (d *Door) socket(attach func(*call) (socket.Peer, error), failed func(*belljar.Error) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), r.Pattern)
		d.sockets.Serve(w, r, socket.Route{Failed: failed, Attach: func(r *http.Request) (socket.Peer, error) {
			c := &call{door: d, caller: api.CallerOf(r.Context()), w: w, r: r}
			if err := c.open(); err != nil {
				return nil, err
			}
			return attach(c)
		}})
	}
}

// meta wraps an answer for a server that depends on this one, and compares versions first. It opens no workspace.
func (d *Door) meta(answer any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if c, err := d.call(w, r); err != nil {
			fail(w, c.r, err)
			return
		}
		w.Header().Set("X-Workspace-Api-Version", workspace.APIVersion)
		write(w, http.StatusOK, answer)
	}
}

// open opens the workspace of a request, and records the duration and failures.
func (c *call) open() (err error) {
	begun, o := time.Now(), c.door.opts
	c.Workspace, err = o.Source.Open(c.r.Context(), c.caller, c.r.PathValue("session_id"))
	o.Events.Record(event.Event{
		Name: event.WorkspaceOpened, Caller: c.caller, Component: "workspace", Kind: o.Source.Mode(), Reason: string(belljar.CodeOf(err)),
		Took: time.Since(begun), Err: err,
	})
	return err
}
