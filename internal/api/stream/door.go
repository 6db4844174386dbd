package stream

import (
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

// Options is what the door is made of. Engine, Auth and Secret are required.
type Options struct {
	Engine belljar.Engine
	// Auth knows callers by their headers.
	Auth api.Authenticator
	// Secret signs URLs: at least 32 bytes that nobody else has, the same after a restart.
	Secret []byte
	// SignedURLs makes [Door.RunURL] give URLs that need no headers.
	SignedURLs bool
	// SignedTTL is how long they can be used to connect, TicketTTL how long tickets can; 0 is 60 s.
	SignedTTL, TicketTTL time.Duration
	// URL returns the WebSocket address of a path of ours, as the client of r reaches it; nil takes the host that r names.
	URL func(r *http.Request, path string) string
	// OriginAllowed reports whether a browser's page may open a WebSocket; nil allows pages of the same host.
	OriginAllowed func(r *http.Request) bool
	// Connect may refuse a WebSocket of a caller who is known, as one who connects too often; nil refuses none.
	Connect func(r *http.Request) error
	// MaxReaders is how many streams one user may have open at once; 0 is 2,000.
	MaxReaders int
	// WriteTimeout is how long a reader may take over a message; 0 is 30 s.
	WriteTimeout time.Duration
	// PingEvery is how often a reader must show that he is there; 0 is 20 s. One who has not answered for three times
	// that is gone.
	PingEvery time.Duration
	// Events hears of streams and of tokens that are no good; nil is deaf.
	Events event.Sink
	// Logger hears what no client can be told; nil is silent.
	Logger *slog.Logger
	// Now is the clock by which tokens expire; nil is time.Now.
	Now func() time.Time
}

const (
	// lingering is how much longer a slow reader may take to hear why he is dropped.
	lingering = 5 * time.Second
	// parting is how long the last words on a connection may take.
	parting = time.Second
)

// Door is the streaming door. Make one with [New].
type Door struct {
	opts    Options
	log     *slog.Logger
	signer  signer
	tickets *tickets
	shares  shares
	lend    lender

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
	setDefault(&opts.SignedTTL, time.Minute)
	setDefault(&opts.TicketTTL, time.Minute)
	setDefault(&opts.WriteTimeout, 30*time.Second)
	setDefault(&opts.PingEvery, 20*time.Second)
	setDefault(&opts.MaxReaders, 2000)
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

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Register adds the door's routes, each with its own authentication.
func (d *Door) Register(mux *http.ServeMux) {
	mux.Handle("GET "+api.Prefix+"/runs/{id}/stream", d.sameOrigin(api.Guard(d, http.HandlerFunc(d.webSocket))))
	mux.Handle("GET "+api.Prefix+"/runs/{id}/logs", api.Guard(d, http.HandlerFunc(d.logs)))
	mux.Handle("POST "+api.Prefix+"/tickets", api.Guard(d.opts.Auth, http.HandlerFunc(d.issue)))
}

// Close ends all streams, WebSockets with code 1001, and returns when they are over. It may be called twice; both calls
// wait.
func (d *Door) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.closing)
		for w := range d.wires { // readers who are slow need not be waited for
			w.hurry(parting)
		}
	}
	d.mu.Unlock()
	d.open.Wait()
	return nil
}

// enter counts a stream of a user, and leave ends that.
func (d *Door) enter(user string) (leave func(), err error) {
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

// watch makes Close hurry what is being written, until unwatch.
func (d *Door) watch(w *wire) (unwatch func()) {
	d.mu.Lock()
	d.wires[w] = struct{}{}
	closed := d.closed
	d.mu.Unlock()
	if closed {
		w.hurry(parting)
	}
	return func() {
		d.mu.Lock()
		delete(d.wires, w)
		d.mu.Unlock()
	}
}

// sameOrigin refuses WebSockets that a foreign web page opens: browsers do not, and send cookies along.
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

// sameHost allows programs that are no browser, and pages of this very host.
func sameHost(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	from, err := url.Parse(origins[0])
	return len(origins) == 1 && err == nil && from.Host != "" && from.Host == r.Host
}
