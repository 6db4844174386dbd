package terminal

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
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
	// WriteTimeout limits the write of one message; 0 means 30 s.
	WriteTimeout time.Duration
	// PingEvery is the interval of pings; 0 means 20 s. A client without a pong for three intervals is disconnected.
	PingEvery time.Duration
	// Flush is how long the first bytes of a character wait for the rest; 0 means 50 ms.
	Flush time.Duration
	// Events gets an event for each connection; nil discards them.
	Events event.Sink
	// Logger gets internal errors; nil discards them.
	Logger *slog.Logger
	// Now is the clock for the expiry of tokens; nil means time.Now.
	Now func() time.Time
}

// kernelBytes is the size of the kernel's send buffer of a connection.
const kernelBytes = 128 << 10

// Door is the door to terminals. Make one with [New].
type Door struct {
	opts   Options
	log    *slog.Logger
	tokens *tokens
	drain  *api.Drain
}

// New returns the door.
func New(opts Options) (*Door, error) {
	switch {
	case opts.Engine == nil || opts.Auth == nil || opts.OriginAllowed == nil:
		return nil, errors.New("terminal: no engine, no authenticator or no rule for origins")
	case len(opts.Secret) < 32:
		return nil, errors.New("terminal: the secret has fewer than 32 bytes")
	}
	setDefault(&opts.TokenTTL, 30*time.Minute)
	setDefault(&opts.WriteTimeout, 30*time.Second)
	setDefault(&opts.PingEvery, 20*time.Second)
	setDefault(&opts.Flush, 50*time.Millisecond)
	if opts.Connect == nil {
		opts.Connect = func(*http.Request) error { return nil }
	}
	if opts.Events == nil {
		opts.Events = event.Sinks{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Door{opts: opts, log: opts.Logger, tokens: newTokens(opts.Secret, opts.TokenTTL, opts.Now), drain: api.NewDrain()}, nil
}

func setDefault(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

// Register adds the route to reattach. Package rest has the route for new terminals, and calls [Door.New] for
// WebSocket requests.
func (d *Door) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+api.Prefix+"/terminals", func(w http.ResponseWriter, r *http.Request) {
		if err := api.RequireWebSocket(w, r, ""); err != nil {
			api.Fail(w, r, err)
			return
		}
		d.serve(w, r, d.reattach)
	})
}

// New handles a WebSocket request and opens a terminal in the session {session_id} of the path.
func (d *Door) New(w http.ResponseWriter, r *http.Request) { d.serve(w, r, d.openNew) }

// Close ends all connections with code 1001 and waits for them. Further calls wait, too.
func (d *Door) Close() error {
	d.drain.Close()
	return nil
}

// cancelOnClose calls cancel shortly after the door starts to close, unless stop is called before.
func (d *Door) cancelOnClose(cancel context.CancelFunc) (stop func()) {
	undo := context.AfterFunc(d.drain.Closing(), func() { time.AfterFunc(shutdownGrace, cancel) })
	return func() { undo() }
}

// attachment is an attached terminal.
type attachment struct {
	belljar.Attachment
	resumed bool
	history bool // whether the client wants it
}

// serve accepts a WebSocket and attaches it to the terminal that attach returns. Most errors are sent over the WebSocket.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, attach func(context.Context, belljar.Service, *http.Request, url.Values) (*attachment, error)) {
	if !d.opts.OriginAllowed(r) {
		api.Fail(w, r, api.ForeignOrigin("a terminal"))
		return
	}
	caller, unknown := d.opts.Auth.Authenticate(r)
	if unknown != nil && belljar.CodeOf(unknown) != belljar.CodeUnauthorized {
		api.Fail(w, r, unknown)
		return
	}
	if unknown == nil {
		r = r.WithContext(api.WithCaller(r.Context(), caller))
		caller = api.CallerOf(r.Context())
	}
	if err := d.opts.Connect(r); err != nil {
		api.Fail(w, r, err)
		return
	}
	leave, err := d.drain.Enter()
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	defer leave()
	conn, err := websocket.Accept(&api.ConnWrapper{ResponseWriter: w, Wrap: limitSendBuffer}, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // OriginAllowed has checked the origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		d.log.Debug("websocket was not accepted", "err", err)
		return // the library has responded
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	s := &socket{door: d, conn: conn, caller: caller, over: make(chan verdict, 1)}
	if unknown != nil {
		s.close(refused(unknown))
		return
	}
	service := d.opts.Engine.As(caller)
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		s.close(refused(invalid("query", "the query cannot be read")))
		return
	}
	term, err := attach(r.Context(), service, r, query)
	if err != nil {
		if belljar.CodeOf(err) == belljar.CodeInternal {
			d.log.Error("terminal could not be had", "user_id", caller.ID, "err", err)
		}
		d.opts.Events.Record(event.Event{
			Name: event.TerminalRefused, Caller: caller, Component: "ws", Reason: string(belljar.CodeOf(err)), Err: err,
		})
		s.close(refused(err))
		return
	}
	defer term.Close()
	s.terminal = term
	begun := time.Now()
	d.opts.Events.Record(event.Event{Name: event.StreamOpened, Caller: caller, Component: "ws", Kind: "terminal"})
	v := s.run(r.Context())
	d.opts.Events.Record(event.Event{
		Name: event.StreamClosed, Caller: caller, Component: "ws", Kind: "terminal", Reason: v.reason, Took: time.Since(begun),
	})
}

// limitSendBuffer limits the kernel's send buffer of a connection.
func limitSendBuffer(conn net.Conn) net.Conn {
	if tcp := api.TCPOf(conn); tcp != nil {
		_ = tcp.SetWriteBuffer(kernelBytes) // an error only costs memory
	}
	return conn
}
