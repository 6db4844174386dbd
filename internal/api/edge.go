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
	"github.com/belljar/belljar/internal/char"
	"github.com/belljar/belljar/internal/event"
)

// EdgeOptions configure an [Edge]. The zero value is for a server without a proxy that rejects cross-origin calls.
type EdgeOptions struct {
	// PublicURL is the server's address for clients: http or https, with an optional path that a proxy strips.
	// By default it is built from the Host header.
	PublicURL string
	// TrustedProxies are the networks whose X-Forwarded-For and X-Forwarded-Proto headers are trusted.
	TrustedProxies []netip.Prefix
	// AllowedOrigins are the origins of web pages that may call: scheme://host[:port], or "*" for all (without
	// credentials).
	AllowedOrigins []string
	// Limits are the rate limits of addresses; nil means none.
	Limits *Limits
	// MaxBody limits a request body, in bytes, unless the door calls [LimitBody]; 0 means 4 MiB.
	MaxBody int64
	// BodyIdle is the longest pause while a client sends a body, 0 means 30 s.
	BodyIdle time.Duration
	// WriteIdle is the timeout of one write of at most 1 MiB, 0 means a minute. It does not apply to doors that set
	// write deadlines of their own.
	WriteIdle time.Duration
	// Answers limits the memory for large answers of one user; nil means [AnswerShares].
	Answers *Shares
	// Logger gets one line per request, and errors; nil discards them.
	Logger *slog.Logger
	// Events gets one [event.Request] per request; nil discards them.
	Events event.Sink
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Edge is the middleware in front of all doors. Make one with [NewEdge].
type Edge struct {
	opts    EdgeOptions
	public  *url.URL
	proxies proxies
	origins origins
	log     *slog.Logger
}

// NewEdge returns an edge. It fails if PublicURL or an allowed origin is invalid.
func NewEdge(opts EdgeOptions) (*Edge, error) {
	e := &Edge{opts: opts, proxies: opts.TrustedProxies, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))}
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
	e.opts.Answers = cmp.Or(e.opts.Answers, AnswerShares())
	e.opts.MaxBody = cmp.Or(e.opts.MaxBody, 4<<20)
	e.opts.BodyIdle = cmp.Or(e.opts.BodyIdle, 30*time.Second)
	e.opts.WriteIdle = cmp.Or(e.opts.WriteIdle, time.Minute)
	if e.opts.Now == nil {
		e.opts.Now = time.Now
	}
	return e, nil
}

// Wrap puts the edge in front of next. It handles request and trace ids, the client's address, body and rate limits,
// CORS, security headers and panics, and writes one log line and one event per request.
func (e *Edge) Wrap(next http.Handler) http.Handler { return e.wrap(next, true) }

// WrapForeign is [Edge.Wrap] for hosts whose responses come from other programs. It sets no CORS and security headers, because
// those programs set their own.
func (e *Edge) WrapForeign(next http.Handler) http.Handler { return e.wrap(next, false) }

func (e *Edge) wrap(next http.Handler, own bool) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		begun := e.opts.Now()
		w := &writer{ResponseWriter: rw, idle: e.opts.WriteIdle, edge: e}
		rec := e.record(r)
		ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), recordKey{}, rec))
		rec.cancel = cancel
		defer func() {
			rec.use.Release()
			for _, leave := range rec.leave {
				leave()
			}
			cancel(nil)
		}()
		r = r.WithContext(ctx)
		if r.Body != nil && r.Body != http.NoBody {
			rec.body = &body{in: r.Body, conn: http.NewResponseController(rw), idle: e.opts.BodyIdle, limit: e.opts.MaxBody}
			r.Body = rec.body
			rec.body.start()
		}
		w.request = r
		defer e.report(w, r, rec, begun)
		defer e.recoverPanic(w, r)
		if own {
			setHeaders(w, r, rec)
			if e.origins.cors(w, r) { // before the limits: a page can read a refusal only with these headers
				Route(r.Context(), "OPTIONS preflight")
				return
			}
		}
		if err := e.admit(r, rec); err != nil {
			Fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// defaultSource is the source in the audit trail of requests that name none. Other doors set their own in the caller.
const defaultSource = "rest"

// record reads the request's ids, origin and labels from its headers.
func (e *Edge) record(r *http.Request) *record {
	address, scheme := e.proxies.client(r)
	return &record{
		requestID: requestID(r.Header.Get(RequestIDHeader)),
		traceID:   traceID(r.Header.Get(traceHeader)),
		address:   address, scheme: scheme,
		source:    cmp.Or(label(r.Header.Get("X-Belljar-Source")), defaultSource),
		model:     label(r.Header.Get("X-Belljar-Model")),
		contextID: label(r.Header.Get("X-Belljar-Context-Id")),
		log:       e.log,
	}
}

// setHeaders sets the headers of every response.
func setHeaders(w *writer, r *http.Request, rec *record) {
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

// admit checks the Host header and the rate limit of the address.
func (e *Edge) admit(r *http.Request, rec *record) error {
	if !saneHost(r.Host) {
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "host header is missing or not a host",
			Details: map[string]any{"field": "Host"},
		}
	}
	return e.opts.Limits.admit(rec)
}

// recoverPanic responds for a door that panicked. After a partial response it cuts the connection, so that the client
// detects the failure.
func (e *Edge) recoverPanic(w *writer, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v) // the door cuts the connection on purpose
	}
	e.log.LogAttrs(r.Context(), slog.LevelError, "door panicked", append(recordOf(r.Context()).attrs(),
		slog.Any("panic", v), slog.String("stack", string(debug.Stack())))...)
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	Fail(w, r, errors.New("door panicked, see above"))
}

// report writes the request's log line and event after its response.
func (e *Edge) report(w *writer, r *http.Request, rec *record, begun time.Time) {
	noteRoute(r)
	status := cmp.Or(w.status, http.StatusOK) // what net/http sends for a door that wrote nothing
	took := e.opts.Now().Sub(begun)
	w.finish()
	if rec.body != nil && status != http.StatusSwitchingProtocols {
		defer rec.body.finish(w)
	}
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

// levelOf keeps successful requests of probes and scrapers out of the log.
func levelOf(path string, status int) slog.Level {
	if status < 400 && (path == "/healthz" || path == "/readyz" || path == "/metrics") {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// redact returns the path of an unknown route for the log, without ids and at most 200 bytes.
func redact(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if len(part) >= 20 { // may be an id, a token or a file name
			parts[i] = "…"
		}
	}
	return char.Short(strings.Join(parts, "/"), 200)
}
