// Package socket connects WebSocket clients to peers, such as a terminal. It admits a client, greets it, passes messages both ways,
// pings, and closes with a code that names the reason. Doors define the messages.
package socket

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Emit sends a message to the client: a []byte unchanged, any other value as JSON.
type Emit func(m any) error

// Peer is the object that a client is connected to.
type Peer interface {
	// Greet returns the first message, with a token. It is called again before the token expires.
	Greet() any
	// Follow emits the peer's messages until it ends, and returns the reason.
	Follow(ctx context.Context, emit Emit) Verdict
	// Receive handles a message of the client; text is false for a binary one. Its error ends the connection.
	Receive(ctx context.Context, text bool, raw []byte, emit Emit) error
	// Close releases the peer when Follow and Receive have returned.
	Close()
}

// Options configure a [Server]. All but Connect and TryAgain are required.
type Options struct {
	// Auth authenticates callers by their headers, or a token= in the query.
	Auth api.Authenticator
	// OriginAllowed reports whether a web page may open a WebSocket.
	OriginAllowed func(r *http.Request) bool
	// Connect may refuse a WebSocket, for example for a rate limit; nil refuses none.
	Connect func(r *http.Request) error
	// Fail responds to a request that does not become a WebSocket.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
	// Kind names the peer in events; What does the same with an article, in errors.
	Kind, What string
	// MaxMessage limits a client's message, in bytes.
	MaxMessage int64
	// Renew is the interval of greetings, PingEvery that of pings. A client without a pong for three intervals is disconnected.
	Renew, PingEvery time.Duration
	// TryAgain are the codes of errors after which a client may try again. They close with 1013, other refusals with 1008.
	TryAgain []belljar.Code
	Events   event.Sink
	Logger   *slog.Logger
}

// Server serves the WebSockets of a door. Make one with [New].
type Server struct {
	opts     Options
	drain    *api.Drain
	messages *api.Shares // of clients' messages
}

// New returns a server.
func New(o Options) *Server {
	return &Server{opts: o, drain: api.NewDrain(), messages: api.JSONShares()}
}

// Close ends all connections with code 1001 and waits for them. Further calls wait, too.
func (s *Server) Close() error {
	s.drain.Close()
	return nil
}

// Route defines the peer for one route.
type Route struct {
	// Attach returns the peer of a request. [api.CallerOf] its context is the caller.
	Attach func(r *http.Request) (Peer, error)
	// Failed returns the message for an error.
	Failed func(e *belljar.Error) any
}

// Serve serves a request. A foreign origin (403), a rate limit (429) and a server that shuts down (503) are HTTP errors; others are
// sent over the WebSocket.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, route Route) {
	r, unknown, err := s.admit(w, r)
	if err != nil {
		s.opts.Fail(w, r, err)
		return
	}
	leave, err := s.drain.Enter()
	if err != nil {
		s.opts.Fail(w, r, err)
		return
	}
	defer leave()
	ws, err := websocket.Accept(&api.ConnWrapper{ResponseWriter: w}, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // OriginAllowed has checked the origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		s.opts.Logger.Debug("websocket was not accepted", "err", err)
		return // the library has responded
	}
	defer ws.CloseNow()
	ws.SetReadLimit(s.opts.MaxMessage)
	c := &conn{server: s, ws: ws, failed: route.Failed, over: make(chan Verdict, 1)}
	if unknown != nil {
		c.close(c.refused(unknown))
		return
	}
	caller := api.CallerOf(r.Context())
	if c.peer, err = route.Attach(r); err != nil {
		s.opts.Events.Record(event.Event{
			Name: event.TerminalRefused, Caller: caller, Component: "ws", Reason: string(belljar.CodeOf(err)), Err: err,
		})
		c.close(c.refused(err))
		return
	}
	defer c.peer.Close()
	begun := time.Now()
	s.opts.Events.Record(event.Event{Name: event.StreamOpened, Caller: caller, Component: "ws", Kind: s.opts.Kind})
	v := c.run(r.Context())
	s.opts.Events.Record(event.Event{
		Name: event.StreamClosed, Caller: caller, Component: "ws", Kind: s.opts.Kind, Reason: v.Reason, Took: time.Since(begun),
	})
}

// admit checks a request before it becomes a WebSocket, and returns it with its caller. unknown is the error of a caller without
// valid credentials.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) (with *http.Request, unknown, err error) {
	if err := api.RequireWebSocket(w, r, ""); err != nil {
		return r, nil, err
	}
	if !s.opts.OriginAllowed(r) {
		return r, nil, api.ForeignOrigin(s.opts.What)
	}
	caller, unknown := s.opts.Auth.Authenticate(r)
	switch {
	case unknown == nil:
		r = r.WithContext(api.WithCaller(r.Context(), caller))
	case belljar.CodeOf(unknown) != belljar.CodeUnauthorized:
		return r, nil, unknown
	}
	if s.opts.Connect != nil {
		err = s.opts.Connect(r)
	}
	return r, unknown, err
}
