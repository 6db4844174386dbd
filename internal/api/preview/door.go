// Package preview is the door for browsers to programs in sessions: HTTP at host names of their own, one for each preview.
//
// A preview's host name is <label>.<domain>. [Door.Split] is in front of all doors and decides by the Host header alone, so that no
// request for a preview reaches the API and no other request reaches a preview. The service looks the label up; the door knows nothing
// about it.
//
// # Private previews
//
// The first visit is to the address with ?belljar_token=. The response sets a cookie and redirects to the address without the token,
// which the program never sees. The cookie's name begins with __Host-: only this host can set it. A program in another preview may set
// cookies for the domain, but cannot plant this one. The door refuses a request that a page of another origin makes a browser send:
// browsers treat all previews as one site, and would send the cookie along.
//
// # Requests and responses
//
// The program gets the browser's request and Host, with X-Forwarded-For, -Host and -Proto, and without Belljar's credentials. The door
// removes response headers that reach beyond the preview's host: the Domain of a cookie, and others in reach.go.
package preview

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Options configure a [Door]. Domain, Open and Dial are required.
type Options struct {
	// Domain is the domain of all previews, in lower case.
	Domain string
	// Open returns the preview of a label if one of the tokens opens it, or it is public. The error is [belljar.CodeNotFound] or
	// [belljar.CodeUnauthorized].
	Open func(label string, tokens ...string) (belljar.Preview, error)
	// Dial connects to the port of a preview.
	Dial func(ctx context.Context, label string) (net.Conn, error)
	// MaxBody limits the body of a request, in bytes; 0 means 64 MiB.
	MaxBody int64
	// Events gets an event for each wrong token; nil discards them.
	Events event.Sink
	// Logger gets internal errors; nil discards them.
	Logger *slog.Logger
}

const (
	// tokenParameter is the query parameter with the token.
	tokenParameter = "belljar_token"
	// cookieName is the cookie with the token.
	cookieName = "__Host-belljar-preview"
)

// Door answers the requests for previews. Make one with [New].
type Door struct {
	opts      Options
	log       *slog.Logger
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	drain     *api.Drain
}

// New returns the door.
func New(opts Options) (*Door, error) {
	if opts.Domain == "" || opts.Open == nil || opts.Dial == nil {
		return nil, errors.New("preview: no domain, or no previews")
	}
	opts.MaxBody = cmp.Or(opts.MaxBody, 64<<20)
	if opts.Events == nil {
		opts.Events = event.Sinks{}
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	d := &Door{opts: opts, log: opts.Logger, drain: api.NewDrain()}
	d.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			label, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			return opts.Dial(ctx, label)
		},
		DisableCompression: true, MaxIdleConns: 256, MaxIdleConnsPerHost: 8, IdleConnTimeout: 10 * time.Second,
		ResponseHeaderTimeout: 5 * time.Minute, ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	d.proxy = &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: d.transport, ModifyResponse: confine, ErrorHandler: d.fail, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}
	return d, nil
}

// Close ends all requests and waits for them. Further calls wait, too.
func (d *Door) Close() error {
	d.drain.Close()
	d.transport.CloseIdleConnections()
	return nil
}

// Split sends requests for the domain and its subdomains to previews, and all others to rest.
func (d *Door) Split(rest, previews http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ours := d.label(r.Host); ours {
			previews.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// label returns the label of a host, "" if it has none, and whether the host is the domain or below it.
func (d *Door) label(host string) (label string, ours bool) {
	if at := strings.LastIndexByte(host, ':'); at >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:at]
	}
	host = strings.ToLower(strings.TrimRight(host, "."))
	if host == d.opts.Domain {
		return "", true
	}
	label, ours = strings.CutSuffix(host, "."+d.opts.Domain)
	if !ours || strings.Contains(label, ".") {
		return "", ours
	}
	return label, true
}

// ServeHTTP answers a request for a preview.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api.Route(r.Context(), r.Method+" preview")
	leave, err := d.drain.Enter()
	if err != nil {
		say(w, http.StatusServiceUnavailable, "The server is shutting down.")
		return
	}
	defer leave()
	label, _ := d.label(r.Host)
	if r.URL.Query().Has(tokenParameter) {
		d.admit(w, r, label)
		return
	}
	var tokens []string
	if !foreign(r) {
		for _, c := range r.CookiesNamed(cookieName) {
			tokens = append(tokens, c.Value)
		}
	}
	if _, err := d.opts.Open(label, tokens...); err != nil {
		d.refuse(w, r, err, len(tokens) > 0)
		return
	}
	api.LimitBody(w, r, d.opts.MaxBody)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &final{w, ctx}
	defer out.hurry(d.drain.Closing(), cancel)()
	d.proxy.ServeHTTP(out, r.WithContext(context.WithValue(ctx, labelKey{}, label)))
}

type labelKey struct{}

// admit exchanges a token in the address for a cookie.
func (d *Door) admit(w http.ResponseWriter, r *http.Request, label string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		say(w, http.StatusMethodNotAllowed, "Open an address with a token in a browser.")
		return
	}
	token := r.URL.Query().Get(tokenParameter)
	p, err := d.opts.Open(label, token)
	if err != nil {
		d.refuse(w, r, err, true)
		return
	}
	// One slash: two would begin the name of another host. The rest of the address keeps its spelling.
	to := "/" + strings.TrimLeft(r.URL.EscapedPath(), `/\`)
	if query := withoutToken(r.URL.RawQuery); query != "" {
		to += "?" + query
	}
	h := w.Header()
	if !p.Public {
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: token, Path: "/", Expires: p.ExpiresAt, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}

// withoutToken removes the token from a query.
func withoutToken(query string) string {
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(name); err != nil || name != tokenParameter {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// refuse answers a request that may not see the preview. The response is the same for a preview that does not exist.
func (d *Door) refuse(w http.ResponseWriter, r *http.Request, err error, tried bool) {
	if tried {
		address, _ := api.ClientOf(r.Context())
		d.opts.Events.Record(event.Event{
			Name: event.AuthFailed, Caller: belljar.Caller{Address: address}, Component: "preview", Kind: "preview", Reason: string(belljar.CodeOf(err)),
		})
	}
	say(w, http.StatusUnauthorized, "This preview needs a token, and the request has none that is valid. Open its token_url, or ask for a new preview.")
}

// foreign reports whether a page of another origin made a browser send the request. Following a link does not count.
func foreign(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	// A form of a page with the referrer policy no-referrer sends null, even to its own host. Sec-Fetch-Site distinguishes the two.
	hidden := len(origins) == 1 && origins[0] == "null"
	if len(origins) > 0 && !hidden {
		from, err := url.Parse(origins[0])
		return len(origins) > 1 || err != nil || from.Host == "" || !strings.EqualFold(from.Host, r.Host)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "":
		return hidden
	case "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Method != http.MethodGet && r.Method != http.MethodHead
}

// fail answers a request in place of its program.
func (d *Door) fail(w http.ResponseWriter, r *http.Request, err error) {
	port := portOf(err)
	switch code := belljar.CodeOf(err); {
	case d.drain.Closing().Err() != nil:
		say(w, http.StatusServiceUnavailable, "The server is shutting down.")
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client is gone
	case code == belljar.CodeTooLarge:
		say(w, http.StatusRequestEntityTooLarge, "The request is larger than this server lets through.")
	case code == belljar.CodeInvalidRequest:
		say(w, http.StatusRequestTimeout, "The request came too slowly.")
	case code == belljar.CodeNotFound && port != "":
		say(w, http.StatusBadGateway, "No program listens on port "+port+" of the session.")
	case code == belljar.CodeNotFound, code == belljar.CodeConflict:
		say(w, http.StatusBadGateway, "The session of this preview has ended.")
	case code == belljar.CodeQuotaExceeded:
		w.Header().Set("Retry-After", "1")
		say(w, http.StatusServiceUnavailable, "The session has too many connections at once.")
	default:
		d.log.Debug("preview failed", "err", err)
		say(w, http.StatusBadGateway, "The program in the session did not answer as HTTP asks for.")
	}
}

// portOf returns the port in an error's details, "" for none.
func portOf(err error) string {
	var e *belljar.Error
	if errors.As(err, &e) {
		if port, ok := e.Details["port"].(int); ok {
			return strconv.Itoa(port)
		}
	}
	return ""
}

// say answers with a sentence.
func say(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that is gone needs no answer
}
