package terminal

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/socket"
	"github.com/belljar/belljar/internal/event"
)

// Options configure a [Door]. Engine, Auth, Secret and OriginAllowed are required.
type Options struct {
	Engine belljar.Engine
	// Auth authenticates callers by their headers, or a token= in the query.
	Auth api.Authenticator
	// Secret signs the tokens for reattaching: at least 32 bytes, the same after a restart.
	Secret []byte
	// TokenTTL is the lifetime of a token; 0 means 30 min.
	TokenTTL time.Duration
	// OriginAllowed reports whether a web page may open a WebSocket.
	OriginAllowed func(r *http.Request) bool
	// Connect may refuse a WebSocket, for example for a rate limit; nil refuses none.
	Connect func(r *http.Request) error
	// PingEvery is the interval of pings; 0 means 20 s. A client without a pong for three intervals is disconnected.
	PingEvery time.Duration
	// Events gets an event for each connection; nil discards them.
	Events event.Sink
	// Logger gets internal errors; nil discards them.
	Logger *slog.Logger
	// Now is the clock for the expiry of tokens; nil means time.Now.
	Now func() time.Time
}

// flush is how long the first bytes of a character wait for the rest.
const flush = 50 * time.Millisecond

// Door is the door to terminals. Make one with [New].
type Door struct {
	opts    Options
	tokens  *socket.Tokens
	sockets *socket.Server
}

// New returns the door.
func New(opts Options) (*Door, error) {
	switch {
	case opts.Engine == nil || opts.Auth == nil || opts.OriginAllowed == nil:
		return nil, errors.New("terminal: no engine, no authenticator or no rule for origins")
	case len(opts.Secret) < 32:
		return nil, errors.New("terminal: the secret has fewer than 32 bytes")
	}
	opts.TokenTTL = cmp.Or(opts.TokenTTL, 30*time.Minute)
	opts.PingEvery = cmp.Or(opts.PingEvery, 20*time.Second)
	if opts.Events == nil {
		opts.Events = event.Sinks{}
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Door{
		opts: opts,
		tokens: &socket.Tokens{
			Sealer: api.NewSealer(opts.Secret, "p1.", "belljar terminal session, version 1"), Audience: "belljar", TTL: opts.TokenTTL, Now: opts.Now,
		},
		sockets: socket.New(socket.Options{
			Auth: opts.Auth, OriginAllowed: opts.OriginAllowed, Connect: opts.Connect, Fail: api.Fail, Kind: "terminal", What: "a terminal",
			MaxMessage: maxMessage, Renew: opts.TokenTTL / 2, PingEvery: opts.PingEvery, TryAgain: []belljar.Code{belljar.CodeRuntimeUnavailable, belljar.CodeRateLimited},
			Events: opts.Events, Logger: opts.Logger,
		}),
	}, nil
}

// Register adds the route to reattach. Package rest has the route for new terminals, and calls [Door.New] for
// WebSocket requests.
func (d *Door) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+api.Prefix+"/terminals", func(w http.ResponseWriter, r *http.Request) {
		d.serve(w, r, d.reattach)
	})
}

// New handles a WebSocket request and opens a terminal in the session {session_id} of the path.
func (d *Door) New(w http.ResponseWriter, r *http.Request) { d.serve(w, r, d.openNew) }

// Close ends all connections with code 1001 and waits for them. Further calls wait, too.
func (d *Door) Close() error { return d.sockets.Close() }

// attachment is an attached terminal.
type attachment struct {
	belljar.Attachment
	resumed bool
	history bool // the client requests it
}

// serve connects a client to the terminal that attach returns.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, attach func(context.Context, belljar.Service, *http.Request, url.Values) (*attachment, error)) {
	d.sockets.Serve(w, r, socket.Route{Failed: dialect{}.Failed, Attach: func(r *http.Request) (socket.Peer, error) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, invalid("query", "the query cannot be read")
		}
		caller := api.CallerOf(r.Context())
		a, err := attach(r.Context(), d.opts.Engine.As(caller), r, query)
		if err != nil {
			return nil, err
		}
		return &socket.Screen{Attachment: a, Dialect: dialect{}, History: a.history, Flush: flush, Greeting: func() any {
			return d.greet(caller, a)
		}}, nil
	}})
}

// The fixed claims of this door's tokens.
const (
	tokenKind    = "terminal"
	tokenRuntime = "belljar"
)

// greet returns the session message, with a new token.
func (d *Door) greet(caller belljar.Caller, a *attachment) greeting {
	state := a.Terminal()
	token, expires := d.tokens.Issue(socket.Claims{Provider: tokenRuntime, Kind: tokenKind, ID: state.ID, User: caller.ID, Session: state.SessionID})
	return greeting{Type: "session", Token: token, Terminal: state.ID, Resumed: a.resumed, ExpiresAt: expires, State: state}
}
