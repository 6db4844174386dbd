package stream

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Options configure a door. Engine, Auth and Secret are required.
type Options struct {
	Engine belljar.Engine
	// Auth authenticates callers by their headers.
	Auth api.Authenticator
	// Secret signs URLs: at least 32 bytes, secret, and the same after a restart.
	Secret []byte
	// SignedURLs makes [Door.RunURL] return URLs that need no headers.
	SignedURLs bool
	// SignedTTL is how long clients can connect with a signed URL, TicketTTL with a ticket; 0 is 60 s.
	SignedTTL, TicketTTL time.Duration
	// URL returns the WebSocket address of a path of this door for the client of r; nil uses the host of r.
	URL func(r *http.Request, path string) string
	// OriginAllowed reports whether a browser's page may open a WebSocket; nil allows pages of the same host.
	OriginAllowed func(r *http.Request) bool
	// Connect may refuse a WebSocket of an authenticated caller, for example because of a rate limit; nil refuses none.
	Connect func(r *http.Request) error
	// MaxReaders is how many streams one user may have open at once; 0 is 2,000.
	MaxReaders int
	// WriteTimeout is how long a reader may take to receive a message; 0 is 30 s.
	WriteTimeout time.Duration
	// PingEvery is the interval of pings; 0 is 20 s. A reader that answers none for three intervals is dropped.
	PingEvery time.Duration
	// Events records streams and invalid tokens; nil discards.
	Events event.Sink
	// Logger logs errors that clients cannot see; nil discards.
	Logger *slog.Logger
	// Now is the clock for the expiry of tokens; nil is time.Now.
	Now func() time.Time
}

const (
	// slowGrace is the extra time for a slow reader to receive the reason why it is dropped.
	slowGrace = 5 * time.Second
	// closeTime bounds the closing handshake of a connection.
	closeTime = time.Second
)

// Door is the streaming door. Make one with [New].
type Door struct {
	opts    Options
	log     *slog.Logger
	signer  signer
	tickets *tickets
	shares  shares
	buffers bufferPool

	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	readers map[string]int // by user
	wires   map[*wire]struct{}
	open    sync.WaitGroup
}

// New returns the door.
func New(opts Options) (*Door, error) {
	switch {
	case opts.Engine == nil || opts.Auth == nil:
		return nil, errors.New("stream: no engine or no authenticator")
	case len(opts.Secret) < 32:
		return nil, errors.New("stream: the signing secret has fewer than 32 bytes")
	}
	opts.SignedTTL = cmp.Or(opts.SignedTTL, time.Minute)
	opts.TicketTTL = cmp.Or(opts.TicketTTL, time.Minute)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, 30*time.Second)
	opts.PingEvery = cmp.Or(opts.PingEvery, 20*time.Second)
	opts.MaxReaders = cmp.Or(opts.MaxReaders, 2000)
	if opts.OriginAllowed == nil {
		opts.OriginAllowed = sameHost
	}
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
	return &Door{
		opts: opts, log: opts.Logger, signer: newSigner(opts.Secret), tickets: newTickets(opts.TicketTTL, opts.Now),
		closing: make(chan struct{}), readers: map[string]int{}, wires: map[*wire]struct{}{},
	}, nil
}

// Register adds the door's routes, each with its own authentication.
func (d *Door) Register(mux *http.ServeMux) {
	mux.Handle("GET "+api.Prefix+"/runs/{id}/stream", d.sameOrigin(api.Guard(d, http.HandlerFunc(d.webSocket))))
	mux.Handle("GET "+api.Prefix+"/runs/{id}/logs", api.Guard(d, http.HandlerFunc(d.logs)))
	mux.Handle("GET "+api.Prefix+"/runs/{id}/usage", api.Guard(d, d.usage(belljar.Usages.Run)))
	mux.Handle("GET "+api.Prefix+"/sessions/{id}/usage", api.Guard(d, d.usage(belljar.Usages.Session)))
	mux.Handle("POST "+api.Prefix+"/tickets", api.Guard(d.opts.Auth, http.HandlerFunc(d.issue)))
}

// Close ends all streams, WebSockets with code 1001, and returns when they have ended. It may be called twice; both calls
// wait.
func (d *Door) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.closing)
		for w := range d.wires { // do not wait for slow readers
			w.bound(closeTime)
		}
	}
	d.mu.Unlock()
	d.open.Wait()
	return nil
}

// admit counts an open stream of a user; release ends that.
func (d *Door) admit(user string) (release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "belljar is shutting down", Hint: "try again in a moment",
		}
	case d.readers[user] >= d.opts.MaxReaders:
		return nil, &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "too many streams are open", Hint: "close some of them",
			Details: map[string]any{"maximum": d.opts.MaxReaders, "scope": "streams"},
		}
	}
	d.readers[user]++
	d.open.Add(1)
	return func() {
		d.mu.Lock()
		if d.readers[user]--; d.readers[user] == 0 {
			delete(d.readers, user)
		}
		d.mu.Unlock()
		d.open.Done()
	}, nil
}

// track makes Close bound the writes of a connection, until untrack.
func (d *Door) track(w *wire) (untrack func()) {
	d.mu.Lock()
	d.wires[w] = struct{}{}
	closed := d.closed
	d.mu.Unlock()
	if closed {
		w.bound(closeTime)
	}
	return func() {
		d.mu.Lock()
		delete(d.wires, w)
		d.mu.Unlock()
	}
}

// sameOrigin refuses WebSockets of foreign web pages: browsers allow them, and send cookies along.
func (d *Door) sameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.opts.OriginAllowed(r) {
			api.Fail(w, r, &belljar.Error{
				Code: belljar.CodeForbidden, Message: "this web page may not open a stream",
				Hint: "name its origin in SANDBOX_ALLOWED_ORIGINS", Details: map[string]any{"field": "Origin"},
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameHost allows clients other than browsers, and pages of this host.
func sameHost(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	from, err := url.Parse(origins[0])
	return len(origins) == 1 && err == nil && from.Host != "" && from.Host == r.Host
}
