package stream

import (
	"cmp"
	"context"
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
	// SignedTTL is how long clients can connect with a signed URL; 0 is 60 s.
	SignedTTL time.Duration
	// URL returns the WebSocket address of a path of this door for the client of r; nil uses the host of r.
	URL func(r *http.Request, path string) string
	// OriginAllowed reports whether a browser's page may open a WebSocket; nil allows pages of the same host.
	OriginAllowed func(r *http.Request) bool
	// Connect may refuse a WebSocket of an authenticated caller, for example because of a rate limit; nil refuses none.
	Connect func(r *http.Request) error
	// Enter may refuse the request of a caller with a token, for example because too many are in progress; nil refuses none.
	Enter func(r *http.Request, c belljar.Caller) error
	// MaxReaders limits the open streams of one user; 0 is 2,000.
	MaxReaders int
	// WriteTimeout is how long a reader may take to receive a message; 0 is 30 s.
	WriteTimeout time.Duration
	// PingEvery is the interval of pings; 0 is 20 s. A reader that sends no pong for three intervals is dropped.
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
	drain   *api.Drain

	mu      sync.Mutex
	readers map[string]int // by user
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
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, 30*time.Second)
	opts.PingEvery = cmp.Or(opts.PingEvery, 20*time.Second)
	opts.MaxReaders = cmp.Or(opts.MaxReaders, 2000)
	if opts.OriginAllowed == nil {
		opts.OriginAllowed = sameHost
	}
	if opts.Connect == nil {
		opts.Connect = func(*http.Request) error { return nil }
	}
	if opts.Enter == nil {
		opts.Enter = func(*http.Request, belljar.Caller) error { return nil }
	}
	if opts.Events == nil {
		opts.Events = event.Sinks{}
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Door{
		opts: opts, log: opts.Logger, signer: newSigner(opts.Secret), tickets: newTickets(opts.Now),
		drain: api.NewDrain(), readers: map[string]int{},
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
	d.drain.Close()
	return nil
}

// admit counts an open stream of a user; release ends that.
func (d *Door) admit(user string) (release func(), err error) {
	leave, err := d.drain.Enter()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readers[user] >= d.opts.MaxReaders {
		leave()
		return nil, &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "too many streams are open", Hint: "close some of them",
			Details: map[string]any{"maximum": d.opts.MaxReaders, "scope": "streams"},
		}
	}
	d.readers[user]++
	return func() {
		d.mu.Lock()
		if d.readers[user]--; d.readers[user] == 0 {
			delete(d.readers, user)
		}
		d.mu.Unlock()
		leave()
	}, nil
}

// track makes Close bound the writes of a connection, until untrack: it does not wait for slow readers.
func (d *Door) track(w *wire) (untrack func()) {
	stop := context.AfterFunc(d.drain.Closing(), func() { w.bound(closeTime) })
	return func() { stop() }
}

// sameOrigin refuses WebSockets of foreign web pages: browsers allow them, and send cookies along.
func (d *Door) sameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.opts.OriginAllowed(r) {
			api.Fail(w, r, api.ForeignOrigin("a stream"))
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
