// Package upstream is a guarded HTTP client for one server that an operator has named, such as the server of a sandbox elsewhere.
//
// A [Guard] sends requests to that server alone, with methods and paths from a list. It ignores proxies of the environment, follows no
// redirect, and connects only to addresses that it has resolved and checked itself, so that a name cannot lead elsewhere between a check
// and a use. It sends its own credentials and none of a caller's, and limits the size of responses. A [Breaker] spares a server that
// does not answer. An error never contains text from the server: a [Failure] has a reason and Belljar's own words.
//
//	upstream.go   the guard
//	address.go    valid addresses of a server, and of its name
//	breaker.go    the circuit breaker
//	call.go       requests for JSON, with retries
//	check.go      the handshake: is the server reachable, is it the right one
//	failure.go    why a request failed
package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Rule allows requests. Path is the complete path of a request; Below also allows the paths below it.
type Rule struct {
	Methods []string
	Path    string
	Below   bool
}

// Options configure a guard. URL and Allow are required.
type Options struct {
	URL   string // http or https, host and port; its path is the prefix of the paths in Allow
	Token string // bearer token; "" sends none
	Allow []Rule
	// MaxBytes is the maximum size of a response's body; 0 is 1 MiB. Responses that switch protocols are not limited.
	MaxBytes int64
	// Patience is how long the server may take to begin its response; 0 is 10 s. A sandbox that wakes up takes seconds.
	Patience time.Duration
	// Lookup resolves a name; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// TLS is for servers with a certificate authority of their own; nil is the system's.
	TLS *tls.Config
	// Alive reports whether a response with a status of 500 or more shows that the server works, so that the breaker does not count it: such
	// as an error about one sandbox. It may read the body, and replaces it then. nil is never.
	Alive func(*http.Response) bool
	// Observe gets each request; it must not block. nil is none.
	Observe func(Observation)
	Breaker *Breaker // nil is one with the defaults
}

// Observation is one request, for metrics. It contains no data of the request or the response.
type Observation struct {
	Method string
	Status int // 0 if there was no response
	Reason Reason
	Took   time.Duration // until the response began
}

// Guard is an [http.RoundTripper] for one server. Safe for concurrent use. Make one with [New].
type Guard struct {
	opts  Options
	base  *url.URL
	names *names
	inner *http.Transport
}

// New returns a guard. It connects to nothing.
func New(o Options) (*Guard, error) {
	base, err := ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if len(o.Allow) == 0 {
		return nil, errors.New("nothing is allowed")
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token must be printable ASCII without spaces")
	}
	o.MaxBytes, o.Patience, o.Breaker = cmp.Or(o.MaxBytes, 1<<20), cmp.Or(o.Patience, 10*time.Second), cmp.Or(o.Breaker, &Breaker{})
	g := &Guard{opts: o, base: base, names: newNames(base, o.Lookup)}
	g.inner = &http.Transport{
		DialContext: g.names.dial, TLSClientConfig: o.TLS, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: o.Patience,
		MaxResponseHeaderBytes: 64 << 10, DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second,
	}
	return g, nil
}

// URL returns the address of a path below the server's own.
func (g *Guard) URL(below string, query url.Values) string {
	u := *g.base
	u.Path, u.RawQuery = g.base.Path+below, query.Encode()
	return u.String()
}

// Circuit is the state of the breaker: closed, half-open or open.
func (g *Guard) Circuit() string { return g.opts.Breaker.State() }

// Close closes idle connections.
func (g *Guard) Close() { g.inner.CloseIdleConnections() }

// Client returns a client that sends over the guard and follows no redirect.
func (g *Guard) Client() *http.Client {
	return &http.Client{Transport: g, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// RoundTrip implements [http.RoundTripper]. Its error is a [*Failure] or the context's. A request whose caller has set a deadline that ends
// while the server works on it does not count for the breaker.
func (g *Guard) RoundTrip(r *http.Request) (*http.Response, error) { return g.send(r, false) }

// send sends a request. With strict, its deadline is how long the server may take.
func (g *Guard) send(r *http.Request, strict bool) (*http.Response, error) {
	if err := g.allowed(r); err != nil {
		closeBody(r)
		return nil, err
	}
	if !g.opts.Breaker.Allow() {
		closeBody(r)
		return nil, &Failure{Reason: Unreachable, text: "it did not answer several times, and is left alone for some seconds", early: true}
	}
	begun := time.Now()
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err := g.inner.RoundTrip(g.outgoing(r).WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	var failed *Failure
	switch {
	case err != nil && errors.Is(r.Context().Err(), context.Canceled):
		g.opts.Breaker.Forget() // the caller is gone, which shows nothing about the server
		return nil, context.Cause(r.Context())
	case err != nil:
		failed = unanswered(err)
	default:
		failed = g.screen(resp)
	}
	o := Observation{Method: r.Method, Took: time.Since(begun)}
	if resp != nil {
		o.Status = resp.StatusCode
	}
	if failed != nil {
		o.Reason = failed.Reason
	} else if of := ofStatus(o.Status); of != nil {
		o.Reason = of.Reason
	}
	// A server that asks for fewer requests is available: callers share a key, and one of them has reached a limit.
	well := o.Reason != Unreachable || o.Status == http.StatusTooManyRequests
	switch {
	case err != nil && !strict && connected.Load() && errors.Is(r.Context().Err(), context.DeadlineExceeded):
		g.opts.Breaker.Forget()
	case !well && failed == nil && g.opts.Alive != nil && g.opts.Alive(resp):
		g.opts.Breaker.Done(true)
	default:
		g.opts.Breaker.Done(well)
	}
	if g.opts.Observe != nil {
		g.opts.Observe(o)
	}
	if failed != nil {
		if resp != nil {
			resp.Body.Close()
		}
		return nil, failed
	}
	return resp, nil
}

// allowed refuses a request that no rule allows.
func (g *Guard) allowed(r *http.Request) error {
	u := r.URL
	// Package websocket writes http for ws.
	if u.Scheme != g.base.Scheme || u.Host != g.base.Host || u.User != nil || u.Opaque != "" || r.Host != "" && r.Host != u.Host {
		return refused("a request to another server")
	}
	// A path must have one spelling: the guard refuses paths that a server could parse in two ways.
	escaped := strings.ToLower(u.EscapedPath())
	if path.Clean(u.Path) != u.Path || strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%5c") || strings.Contains(escaped, "%2e") ||
		strings.ContainsFunc(u.Path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == ';' }) {
		return refused("a path with more than one meaning")
	}
	for _, rule := range g.opts.Allow {
		whole := g.base.Path + rule.Path
		if slices.Contains(rule.Methods, r.Method) && (u.Path == whole || rule.Below && strings.HasPrefix(u.Path, whole+"/")) {
			return nil
		}
	}
	return refused("a request that is not on the list")
}

// outgoing returns the request to send: without the caller's credentials, and without hop-by-hop headers.
func (g *Guard) outgoing(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	upgrade := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	for name := range out.Header {
		low := strings.ToLower(name)
		switch {
		case upgrade && (low == "connection" || low == "upgrade"):
		case slices.Contains(dropped(), low), strings.HasPrefix(low, "proxy-"), strings.HasPrefix(low, "x-forwarded-"):
			out.Header.Del(name)
		}
	}
	for _, name := range strings.Split(r.Header.Get("Connection"), ",") {
		if name = strings.TrimSpace(name); name != "" && !(upgrade && strings.EqualFold(name, "upgrade")) {
			out.Header.Del(name)
		}
	}
	if g.opts.Token != "" {
		out.Header.Set("Authorization", "Bearer "+g.opts.Token)
	}
	return out
}

// dropped returns the headers that are never forwarded.
func dropped() []string {
	return []string{
		"authorization", "x-api-key", "cookie", "forwarded", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
	}
}

// screen refuses a response that is a redirect or too long, and limits the others.
func (g *Guard) screen(resp *http.Response) *Failure {
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return &Failure{Reason: BadPath, Status: resp.StatusCode, text: "it answers with a redirect, which is not followed"}
	case resp.ContentLength > g.opts.MaxBytes:
		return tooLong(g.opts.MaxBytes)
	}
	resp.Body = &bounded{ReadCloser: resp.Body, left: g.opts.MaxBytes, most: g.opts.MaxBytes}
	return nil
}

func tooLong(most int64) *Failure {
	return &Failure{Reason: Refused, text: "its answer is longer than " + strconv.FormatInt(most, 10) + " bytes"}
}

// bounded is a body with a size limit.
type bounded struct {
	io.ReadCloser
	left, most int64
}

// Read fails if the body exceeds the limit.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLong(b.most)
	}
	return n, err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}
