// Package rest is the sandbox API: JSON over REST under [api.Prefix], file uploads, artifact downloads, the probes, and
// their OpenAPI document. Operations are declared in code with huma, which generates the document; [api.Fail] writes
// all errors.
package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Options configure a [Door]. Engine and Auth are required.
type Options struct {
	Engine belljar.Engine
	// Auth authenticates callers. The probes, the document and its page are public.
	Auth api.Authenticator
	// Downloads authenticates downloads, for example by a ticket in token=; nil means Auth.
	Downloads api.Authenticator
	// StreamURL returns the WebSocket URL of a run's log; nil omits log_stream_url from responses.
	StreamURL func(r *http.Request, run belljar.Run) string
	// Terminal handles WebSocket requests on the route that lists a session's terminals; nil lists them.
	Terminal http.HandlerFunc
	// PreviewURL returns the address of a preview for the client of r, with a slash at its end; nil omits addresses.
	PreviewURL func(r *http.Request, label string) string
	// BasePath is the path of SANDBOX_PUBLIC_URL, which a proxy strips, without a trailing slash.
	BasePath string
	// Version of this server, for the document; "" means "dev".
	Version string
	// Ready checks the parts that requests need; nil checks nothing. Its result is public.
	Ready func(ctx context.Context) map[string]Check
	// Metrics handles GET /metrics; nil omits the route. It is for operators, unless MetricsOpen.
	Metrics     http.Handler
	MetricsOpen bool
	// SpecVersions are the versions of the specification that clients may name; nil allows all that the engine does.
	SpecVersions []string
	// Series returns the metrics by name, for GET /admin/metrics; nil means that there are none.
	Series func() (map[string][]event.Series, error)
	// Events gets refused requests for operators' routes; nil discards them.
	Events event.Sink
	// MaxUpload limits the files of an upload, in bytes; 0 means 64 MiB. The door allows [framing] more, for the
	// overhead of an archive or a form; the service enforces the exact limit.
	MaxUpload int64
	// MaxImage limits an imported archive, in bytes; 0 means 16 GiB.
	MaxImage int64
	// Foreground makes every POST /runs that is not interactive wait for its end, at most for MaxWait (SANDBOX_BACKGROUND_EXECUTION=false).
	Foreground bool
	// Bodies limits the memory for JSON bodies of one user, and Lists their large lists; nil means [api.JSONShares] and [api.ListShares].
	Bodies, Lists *api.Shares
	// MaxWait limits the wait of POST /runs; 0 means 10 minutes.
	MaxWait time.Duration
}

// framing is the maximum overhead of an archive or a form, in bytes.
const framing = 2 << 20

// maxBody limits a JSON body, in bytes.
const maxBody = 4 << 20

// Bodies of one user in the spool: uploadsAtOnce uploads of the maximum size. A further one waits for spoolWait.
const (
	uploadsAtOnce = 4
	spoolWait     = 20 * time.Second
)

// Door handles requests. Make one with [New].
type Door struct {
	opts   Options
	api    huma.API
	routes []route
	bodies []bodies

	spools *api.Shares
}

// route is an http.ServeMux pattern and its handler.
type route struct {
	pattern string
	handler http.Handler
}

// New returns a door to opts.Engine.
func New(opts Options) (*Door, error) {
	if opts.Engine == nil {
		return nil, errors.New("rest: no engine")
	}
	if opts.Auth == nil {
		return nil, errors.New("rest: no authenticator")
	}
	if opts.Events == nil {
		opts.Events = event.Sinks{}
	}
	opts.Version = cmp.Or(opts.Version, "dev")
	opts.Downloads = cmp.Or(opts.Downloads, opts.Auth)
	opts.MaxUpload = cmp.Or(opts.MaxUpload, 64<<20)
	opts.MaxImage = cmp.Or(opts.MaxImage, 16<<30)
	opts.Bodies, opts.Lists = cmp.Or(opts.Bodies, api.JSONShares()), cmp.Or(opts.Lists, api.ListShares())
	opts.MaxWait = cmp.Or(opts.MaxWait, 10*time.Minute)
	d := &Door{opts: opts, spools: api.NewShares(uploadsAtOnce*(opts.MaxUpload+framing), spoolWait)}
	d.api = huma.NewAPI(configure(opts.Version), (*adapter)(d))
	d.sessions()
	d.terminals()
	addPorts(d)
	addPreviews(d)
	addContexts(d)
	addSecrets(d)
	addSnapshots(d)
	addVolumes(d)
	addTemplates(d)
	d.uploads()
	d.files()
	d.runs()
	d.execs()
	d.artifacts()
	d.images()
	d.node()
	d.admin()
	addApprovals(d)
	d.tokens()
	d.probes()
	return d, d.serveDocument()
}

// Register adds the door's routes to a mux. It includes a catch-all for [api.Prefix], which responds with not found.
func (d *Door) Register(mux *http.ServeMux) {
	for _, r := range d.routes {
		mux.Handle(r.pattern, r.handler)
	}
	mux.Handle(api.Prefix+"/", api.Guard(d.opts.Auth, api.NoRoute(mux, "GET /openapi.json lists every path")))
}

// Handler returns the door on a mux of its own.
func (d *Door) Handler() http.Handler {
	mux := http.NewServeMux()
	d.Register(mux)
	return RequireCleanPath(mux)
}

// open adds a public route.
func (d *Door) open(pattern string, h http.HandlerFunc) {
	d.routes = append(d.routes, route{pattern, h})
}

// guarded adds a route that requires authentication.
func (d *Door) guarded(pattern string, h http.HandlerFunc) {
	d.routes = append(d.routes, route{pattern, api.Guard(d.opts.Auth, h)})
}

// as returns the service for the request's caller.
func (d *Door) as(ctx context.Context) belljar.Service { return d.opts.Engine.As(api.CallerOf(ctx)) }

// addDownload adds a route for downloads, which browsers request without Belljar's headers.
func addDownload(d *Door, pattern string, h http.HandlerFunc) {
	d.routes = append(d.routes, route{pattern, api.Guard(d.opts.Downloads, h)})
}
