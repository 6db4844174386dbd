package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// EdgeOptions say how the server meets the world. The zero value is a server that nothing stands in front of and that
// no web page of another origin may call.
type EdgeOptions struct {
	// PublicURL is the address that clients use, if not the one they name in their requests: http or https, maybe
	// with a path that a proxy strips.
	PublicURL string
	// TrustedProxies are the networks whose X-Forwarded-For and X-Forwarded-Proto are believed.
	TrustedProxies []netip.Prefix
	// AllowedOrigins are the web pages that may call from a browser: scheme://host[:port], or "*" for all (without
	// credentials).
	AllowedOrigins []string
	// Limits bound how often one address may ask; nil does not.
	Limits *Limits
	// MaxBody is how many bytes a request body may have where no door says otherwise ([LimitBody]); 0 is 4 MiB.
	MaxBody int64
	// BodyIdle is how long a client may pause while it sends a body, 0 is 30 s; MinBodyRate how many bytes a second it
	// must send on average after that, 0 is 512.
	BodyIdle    time.Duration
	MinBodyRate int64
	// WriteIdle is how long a client may take for a piece of an answer (1 MiB, or less if the door writes less), 0 is a
	// minute. Doors that set write deadlines of their own are left alone.
	WriteIdle time.Duration
	// Logger gets one line a request, and what goes wrong; nil is silent.
	Logger *slog.Logger
	// Events gets one [event.Request] a request; nil counts nothing.
	Events event.Sink
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Edge is what every request passes before a door and every answer after it. Make one with [NewEdge].
type Edge struct {
	opts    EdgeOptions
	public  *url.URL
	proxies proxies
	origins origins
	log     *slog.Logger
}

// NewEdge checks the options.
func NewEdge(opts EdgeOptions) (*Edge, error) {
	e := &Edge{opts: opts, proxies: opts.TrustedProxies, log: opts.Logger}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if opts.PublicURL != "" {
		u, err := url.Parse(opts.PublicURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !saneHost(u.Host) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("public URL %q is not http(s)://host[/path]", opts.PublicURL)
		}
		u.Path = strings.TrimRight(u.Path, "/")
		e.public = u
	}
	for _, o := range opts.AllowedOrigins {
		o = strings.ToLower(strings.TrimSuffix(o, "/"))
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.User != nil || strings.Contains(u.Host, "*")) {
			return nil, fmt.Errorf("origin %q is not scheme://host[:port] or *", o)
		}
		e.origins = append(e.origins, o)
	}
	setDefault(&e.opts.MaxBody, 4<<20)
	setDefault(&e.opts.BodyIdle, 30*time.Second)
	setDefault(&e.opts.MinBodyRate, 512)
	setDefault(&e.opts.WriteIdle, time.Minute)
	if e.opts.Now == nil {
		e.opts.Now = time.Now
	}
	return e, nil
}

func setDefault[T int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Wrap puts the edge in front of the doors: request and trace ids, the client's address, the bounds on bodies and
// rates, CORS, security headers, one log line and one event a request, and an answer even when a door panics.
func (e *Edge) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		begun := e.opts.Now()
		w := &writer{ResponseWriter: rw, idle: e.opts.WriteIdle}
		rec := e.record(r)
		r = r.WithContext(context.WithValue(r.Context(), recordKey{}, rec))
		if r.Body != nil && r.Body != http.NoBody {
			rec.body = &body{
				in: r.Body, conn: http.NewResponseController(rw),
				idle: e.opts.BodyIdle, rate: e.opts.MinBodyRate, limit: e.opts.MaxBody,
			}
			r.Body = rec.body
			rec.body.open()
		}
		defer e.report(w, r, rec, begun)
		defer e.rescue(w, r)
		e.greet(w, r, rec)
		if err := e.admit(r, rec); err != nil {
			Fail(w, r, err)
			return
		}
		if e.origins.cors(w, r) {
			Route(r.Context(), "OPTIONS preflight")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// plainSource is the source of a request that names none: every line of the audit trail has one. Doors that are
// not the plain API put their own into the caller.
const plainSource = "rest"

// record reads what the headers say about the request and its sender.
func (e *Edge) record(r *http.Request) *record {
	address, scheme := e.proxies.client(r)
	return &record{
		requestID: requestID(r.Header.Get(RequestIDHeader)),
		traceID:   traceID(r.Header.Get(traceHeader)),
		address:   address, scheme: scheme,
		source:    cmp.Or(label(r.Header.Get("X-Belljar-Source")), plainSource),
		model:     label(r.Header.Get("X-Belljar-Model")),
		contextID: label(r.Header.Get("X-Belljar-Context-Id")),
		log:       e.log,
	}
}

// greet writes the headers that every answer has.
func (e *Edge) greet(w *writer, r *http.Request, rec *record) {
	h := w.Header()
	h.Set(RequestIDHeader, rec.requestID)
	if rec.traceID != "" {
		h.Set(traceHeader, r.Header.Get(traceHeader))
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
}

// admit refuses what no door should have to look at.
func (e *Edge) admit(r *http.Request, rec *record) error {
	if !saneHost(r.Host) {
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "host header is missing or not a host",
			Details: map[string]any{"field": "Host"},
		}
	}
	return e.opts.Limits.admit(rec.address)
}

// rescue answers for a door that panicked. If the answer has begun, only the connection can tell that it is not whole.
func (e *Edge) rescue(w *writer, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v) // a door's own way to cut a connection
	}
	e.log.LogAttrs(r.Context(), slog.LevelError, "door panicked", append(recordOf(r.Context()).attrs(),
		slog.Any("panic", v), slog.String("stack", string(debug.Stack())))...)
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	Fail(w, r, errors.New("door panicked, see above"))
}

// report writes the request's line and event when its answer is made.
func (e *Edge) report(w *writer, r *http.Request, rec *record, begun time.Time) {
	noteRoute(r)
	status := w.status
	if status == 0 {
		status = http.StatusOK // what net/http sends for a door that wrote nothing
	}
	w.finish()
	if rec.body != nil && status != http.StatusSwitchingProtocols {
		rec.body.settle()
	}
	took := e.opts.Now().Sub(begun)
	route, path := "unmatched", redact(r.URL.Path)
	if p := rec.route.Load(); p != nil {
		route, path = *p, (*p)[strings.IndexByte(*p, ' ')+1:]
	}
	caller := rec.caller.Load()
	if caller == nil {
		caller = &belljar.Caller{}
		rec.complete(caller)
	}
	attrs := append(rec.attrs(),
		slog.String("method", r.Method), slog.String("path", path), slog.Int("status", status),
		slog.Int64("bytes", w.bytes), slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.String("address", rec.address))
	e.log.LogAttrs(r.Context(), levelOf(path, status), "request", attrs...)
	if e.opts.Events != nil {
		e.opts.Events.Record(event.Event{
			Name: event.Request, Time: begun, Caller: *caller, Component: "http",
			Kind: route, Reason: strconv.Itoa(status), Took: took, Count: w.bytes,
		})
	}
}

// levelOf keeps what probes and scrapers ask every few seconds out of the log, as long as all is well.
func levelOf(path string, status int) slog.Level {
	if status < 400 && (path == "/healthz" || path == "/readyz" || path == "/metrics") {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// redact is a path of no known route, fit for a log: without ids, and not long.
func redact(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if len(part) >= 20 { // an id, a token, or a file's name: nothing to keep
			parts[i] = "…"
		}
	}
	path = strings.Join(parts, "/")
	if len(path) > 200 {
		path = strings.ToValidUTF8(path[:200], "") + "…"
	}
	return path
}
