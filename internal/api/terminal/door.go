package terminal

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Options is what the door is made of. Engine, Auth and Secret are required.
type Options struct {
	Engine belljar.Engine
	// Auth knows callers by their headers, or a token= in the query.
	Auth api.Authenticator
	// Secret seals what browsers come back with: at least 32 bytes that nobody else has, the same after a restart.
	Secret []byte
	// TokenTTL is how long one can come back with it; 0 is 30 min.
	TokenTTL time.Duration
	// OriginAllowed reports whether a browser's page may open a WebSocket. Required.
	OriginAllowed func(r *http.Request) bool
	// Connect may refuse a WebSocket, as of one who connects too often; nil refuses none.
	Connect func(r *http.Request) error
	// WriteTimeout is how long a reader may take over a message; 0 is 30 s.
	WriteTimeout time.Duration
	// PingEvery is how often a reader must show that he is there; 0 is 20 s. One who has not answered for three times
	// that is gone.
	PingEvery time.Duration
	// Flush is how long the beginning of a character waits for its rest; 0 is 50 ms.
	Flush time.Duration
	// Events hears of connections; nil is deaf.
	Events event.Sink
	// Logger hears what no client can be told; nil is silent.
	Logger *slog.Logger
	// Now is the clock by which tokens expire; nil is time.Now.
	Now func() time.Time
}

// kernelBytes is how much of a connection's output the kernel may hold.
const kernelBytes = 128 << 10

// Door is the door to terminals. Make one with [New].
type Door struct {
	opts   Options
	log    *slog.Logger
	tokens *tokens

	mu      sync.Mutex
	closed  bool
	closing context.Context
	shut    context.CancelFunc
	open    sync.WaitGroup
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
	d := &Door{opts: opts, log: opts.Logger, tokens: newTokens(opts.Secret, opts.TokenTTL, opts.Now)}
	d.closing, d.shut = context.WithCancel(context.Background())
	return d, nil
}

func setDefault(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

// Register adds the route by which one comes back. That of new terminals is another door's, which hands over to
// [Door.New] who asks for a WebSocket.
func (d *Door) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+api.Prefix+"/terminals", func(w http.ResponseWriter, r *http.Request) {
		if !api.Upgrades(r) {
			w.Header().Set("Upgrade", "websocket")
			api.Fail(w, r, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: "this is a WebSocket, and the request does not ask for one",
				Hint:    "connect by WebSocket; a proxy in front of the server must pass Upgrade and Connection on",
				Details: map[string]any{"field": "Upgrade"},
			})
			return
		}
		d.serve(w, r, d.back)
	})
}

// New opens a terminal in the session that the request's path names as session_id, for who asks for a WebSocket.
func (d *Door) New(w http.ResponseWriter, r *http.Request) { d.serve(w, r, d.fresh) }

// Close ends all connections with code 1001 and returns when they are over. It may be called twice; both calls wait.
func (d *Door) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.shut()
	d.open.Wait()
	return nil
}

// hurry cancels what may take long soon after the door begins to close, until it is done.
func (d *Door) hurry(cancel context.CancelFunc) (done func()) {
	stop := context.AfterFunc(d.closing, func() { time.AfterFunc(parting, cancel) })
	return func() { stop() }
}

// enter counts a connection, which leave ends.
func (d *Door) enter() (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "belljar is shutting down", Hint: "try again in a moment",
		}
	}
	d.open.Add(1)
	return d.open.Done, nil
}

// seat is a terminal that somebody has come to.
type seat struct {
	belljar.Attachment
	resumed bool
	history bool // wanted
}

// serve answers who asks for a WebSocket, on it as soon as there is one.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, come func(context.Context, belljar.Service, *http.Request, url.Values) (*seat, error)) {
	if !d.opts.OriginAllowed(r) {
		api.Fail(w, r, &belljar.Error{
			Code: belljar.CodeForbidden, Message: "this web page may not open a terminal",
			Hint: "name its origin in SANDBOX_ALLOWED_ORIGINS", Details: map[string]any{"field": "Origin"},
		})
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
	leave, err := d.enter()
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	defer leave()
	conn, err := websocket.Accept(&api.Wired{ResponseWriter: w, Wrap: shorten}, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the origin has been looked at
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		d.log.Debug("websocket was not accepted", "err", err)
		return // the library has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	s := &socket{door: d, conn: conn, caller: caller, over: make(chan verdict, 1)}
	if unknown != nil {
		s.part(refused(unknown))
		return
	}
	service := d.opts.Engine.As(caller)
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		s.part(refused(invalid("query", "the query cannot be read")))
		return
	}
	seat, err := come(r.Context(), service, r, query)
	if err != nil {
		if belljar.CodeOf(err) == belljar.CodeInternal {
			d.log.Error("terminal could not be had", "user_id", caller.ID, "err", err)
		}
		d.opts.Events.Record(event.Event{
			Name: event.TerminalRefused, Caller: caller, Component: "ws", Reason: string(belljar.CodeOf(err)), Err: err,
		})
		s.part(refused(err))
		return
	}
	defer seat.Close()
	s.seat = seat
	begun := time.Now()
	d.opts.Events.Record(event.Event{Name: event.StreamOpened, Caller: caller, Component: "ws", Kind: "terminal"})
	v := s.run(r.Context())
	d.opts.Events.Record(event.Event{
		Name: event.StreamClosed, Caller: caller, Component: "ws", Kind: "terminal", Reason: v.reason, Took: time.Since(begun),
	})
}

// shorten bounds how much of a connection's output the kernel holds.
func shorten(conn net.Conn) net.Conn {
	if tcp := api.TCPOf(conn); tcp != nil {
		_ = tcp.SetWriteBuffer(kernelBytes) // only a bound on memory
	}
	return conn
}
