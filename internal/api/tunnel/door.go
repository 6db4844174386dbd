package tunnel

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Options configure a [Door]. Engine, Auth and OriginAllowed are required.
type Options struct {
	Engine belljar.Engine
	// Auth authenticates callers by their headers, or a token= in the query.
	Auth api.Authenticator
	// OriginAllowed reports whether a web page may open a WebSocket.
	OriginAllowed func(r *http.Request) bool
	// Connect may refuse a WebSocket, for example for a rate limit; nil refuses none.
	Connect func(r *http.Request) error
	// PingEvery is the interval of pings, which keep proxies from closing an idle connection; 0 means 20 s.
	PingEvery time.Duration
	// Events gets an event for each connection; nil discards them.
	Events event.Sink
	// Logger gets internal errors; nil discards them.
	Logger *slog.Logger
}

// Door is the door to ports. Make one with [New].
type Door struct {
	opts  Options
	log   *slog.Logger
	drain *api.Drain
}

// New returns the door.
func New(opts Options) (*Door, error) {
	if opts.Engine == nil || opts.Auth == nil || opts.OriginAllowed == nil {
		return nil, errors.New("tunnel: no engine, no authenticator or no rule for origins")
	}
	opts.PingEvery = cmp.Or(opts.PingEvery, 20*time.Second)
	if opts.Connect == nil {
		opts.Connect = func(*http.Request) error { return nil }
	}
	if opts.Events == nil {
		opts.Events = event.Sinks{}
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	return &Door{opts: opts, log: opts.Logger, drain: api.NewDrain()}, nil
}

// Register adds the door's route.
func (d *Door) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+api.Prefix+"/sessions/{session_id}/ports/{port}/tunnel", d.serve)
}

// Close ends all connections with code 1001 and waits for them. Further calls wait, too.
func (d *Door) Close() error {
	d.drain.Close()
	return nil
}

// admit checks a request before it becomes a WebSocket. unknown is the error of a caller without valid credentials, which is sent
// over the WebSocket.
func (d *Door) admit(w http.ResponseWriter, r *http.Request) (caller belljar.Caller, unknown, err error) {
	caller, unknown = d.opts.Auth.Authenticate(r)
	if !api.IsWebSocket(r) && unknown != nil {
		return caller, nil, unknown
	}
	if err := api.RequireWebSocket(w, r, ""); err != nil {
		return caller, nil, err
	}
	if !d.opts.OriginAllowed(r) {
		return caller, nil, api.ForeignOrigin("a tunnel")
	}
	if unknown != nil && belljar.CodeOf(unknown) != belljar.CodeUnauthorized {
		return caller, nil, unknown
	}
	if unknown == nil {
		r = r.WithContext(api.WithCaller(r.Context(), caller))
		caller = api.CallerOf(r.Context())
	}
	return caller, unknown, d.opts.Connect(r)
}

// serve accepts a WebSocket and connects it to the port. Most errors are sent over the WebSocket.
func (d *Door) serve(w http.ResponseWriter, r *http.Request) {
	caller, unknown, err := d.admit(w, r)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	leave, err := d.drain.Enter()
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	defer leave()
	ws, err := websocket.Accept(&api.ConnWrapper{ResponseWriter: w}, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // OriginAllowed has checked the origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		d.log.Debug("websocket was not accepted", "err", err)
		return // the library has responded
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1) // messages are forwarded in pieces
	t := &tunnel{door: d, ws: ws, finished: make(chan struct{})}
	if unknown != nil {
		t.close(refused(unknown))
		return
	}
	id, number := r.PathValue("session_id"), r.PathValue("port")
	port, err := strconv.Atoi(number)
	if err != nil {
		err = &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "port " + strconv.Quote(number) + " is not a number", Details: map[string]any{"field": "port"},
		}
	}
	if _, unread := api.Query(r, "token"); err == nil {
		err = unread
	}
	if err == nil {
		t.conn, err = d.opts.Engine.As(caller).Ports().Dial(r.Context(), id, port)
	}
	if err != nil {
		if belljar.CodeOf(err) == belljar.CodeInternal {
			d.log.Error("port could not be connected to", "session_id", id, "user_id", caller.ID, "err", err)
		}
		t.close(refused(err))
		return
	}
	begun := time.Now()
	d.opts.Events.Record(event.Event{Name: event.StreamOpened, Caller: caller, Component: "ws", Kind: "tunnel"})
	v := t.run(r.Context(), opened{"open", id, port})
	d.opts.Events.Record(event.Event{
		Name: event.StreamClosed, Caller: caller, Component: "ws", Kind: "tunnel", Reason: v.Reason, Took: time.Since(begun),
	})
}
