// Package rest is the sandbox API: JSON over REST under [api.Prefix], file uploads, artifact downloads, the probes, and
// the document that describes all of it. Operations are declared code first with huma, which also writes the
// document; everything that can go wrong is told by [api.Fail].
package rest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Options is what the door opens to. Engine and Auth are required.
type Options struct {
	Engine belljar.Engine
	// Auth finds out who calls. The probes, the document and its page need nobody.
	Auth api.Authenticator
	// StreamURL is where a run's log can be followed by WebSocket; nil leaves log_stream_url out of answers.
	StreamURL func(r *http.Request, run belljar.Run) string
	// Terminal answers who asks for a WebSocket where a session's terminals are listed; nil leaves the request to the
	// listing.
	Terminal http.HandlerFunc
	// BasePath is what clients put before the paths of this server, without a slash at the end: the path of
	// SANDBOX_PUBLIC_URL, which a proxy strips.
	BasePath string
	// Version of this server, for the document; "" is "dev".
	Version string
	// Ready looks at the parts that requests need; nil has none. Whoever asks sees what it says.
	Ready func(ctx context.Context) map[string]Check
	// Metrics answers GET /metrics; nil leaves the route out. It is for operators, unless MetricsOpen.
	Metrics     http.Handler
	MetricsOpen bool
	// MaxUpload bounds the files of an upload, in bytes; 0 is 64 MiB. The door lets [framing] more through, for what an
	// archive or a form adds: what the files come to is the service's to bound.
	MaxUpload int64
	// MaxImage bounds an archive that is imported, in bytes; 0 is 16 GiB.
	MaxImage int64
	// Foreground makes every POST /runs wait for its end, for as long as it may (SANDBOX_BACKGROUND_EXECUTION=false).
	Foreground bool
	// Bodies bounds what the JSON bodies of one user take up; nil is [api.JSONShares] of this door's own.
	Bodies *api.Shares
	// MaxWait is the longest that POST /runs waits; 0 is 10 minutes.
	MaxWait time.Duration
}

// framing is what an archive or a form may add to its files.
const framing = 2 << 20

// maxBody is how many bytes a JSON body may have.
const maxBody = 4 << 20

// What one user's requests may have in hand at once: bodies in memory until they are understood, uploads in spools until
// they are in the workspace. A request for which there is no room waits for patience.
const (
	uploadsInHand = 4 // of the greatest
	patience      = 20 * time.Second
)

// Door answers requests. Make one with [New].
type Door struct {
	opts   Options
	api    huma.API
	routes []route

	spools *api.Shares
}

// route is a pattern of http.ServeMux and what answers it.
type route struct {
	pattern string
	handler http.Handler
}

// New returns a door to an engine.
func New(opts Options) (*Door, error) {
	if opts.Engine == nil {
		return nil, errors.New("rest: no engine")
	}
	if opts.Auth == nil {
		return nil, errors.New("rest: no authenticator")
	}
	if opts.Version == "" {
		opts.Version = "dev"
	}
	if opts.MaxUpload == 0 {
		opts.MaxUpload = 64 << 20
	}
	if opts.MaxImage == 0 {
		opts.MaxImage = 16 << 30
	}
	if opts.Bodies == nil {
		opts.Bodies = api.JSONShares()
	}
	if opts.MaxWait == 0 {
		opts.MaxWait = 10 * time.Minute
	}
	d := &Door{
		opts: opts, spools: api.NewShares(uploadsInHand*(opts.MaxUpload+framing), patience),
	}
	d.api = huma.NewAPI(configure(opts.Version), (*adapter)(d))
	d.sessions()
	d.terminals()
	d.uploads()
	d.files()
	d.runs()
	d.execs()
	d.artifacts()
	d.images()
	d.node()
	d.admin()
	d.tokens()
	d.probes()
	if err := d.document(); err != nil {
		return nil, err
	}
	return d, nil
}

// Register puts the door's routes on a mux. Nothing else may answer [api.Prefix] as a whole: what no other pattern there
// answers is told as not found.
func (d *Door) Register(mux *http.ServeMux) {
	for _, r := range d.routes {
		mux.Handle(r.pattern, r.handler)
	}
	mux.Handle(api.Prefix+"/", api.Guard(d.opts.Auth, api.Lost(mux, "GET /openapi.json lists what there is")))
}

// Handler returns the door by itself, on a mux of its own.
func (d *Door) Handler() http.Handler {
	mux := http.NewServeMux()
	d.Register(mux)
	return Straight(mux)
}

// open adds a route that anybody may ask.
func (d *Door) open(pattern string, h http.HandlerFunc) {
	d.routes = append(d.routes, route{pattern, h})
}

// guarded adds a route for those that the authenticator knows.
func (d *Door) guarded(pattern string, h http.HandlerFunc) {
	d.routes = append(d.routes, route{pattern, api.Guard(d.opts.Auth, h)})
}

// as is the engine as the request's caller sees it.
func (d *Door) as(ctx context.Context) belljar.Service { return d.opts.Engine.As(api.CallerOf(ctx)) }
