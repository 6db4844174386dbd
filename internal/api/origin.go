package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// origins are the allowed origins, as scheme://host[:port] or "*".
type origins []string

// listed reports whether the list has this origin by name.
func (o origins) listed(origin string) bool { return slices.Contains(o, strings.ToLower(origin)) }

// any reports whether every origin is allowed.
func (o origins) any() bool { return slices.Contains(o, "*") }

// cors sets the headers of cross-origin calls. It responds to a preflight and then returns true. Credentials are allowed
// only for origins that are listed by name.
func (o origins) cors(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	switch {
	case o.listed(origin):
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
	case o.any():
		h.Set("Access-Control-Allow-Origin", "*")
	}
	allowed := h.Get("Access-Control-Allow-Origin") != ""
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		if allowed {
			h.Set("Access-Control-Expose-Headers",
				"Accept-Ranges, Belljar-Run-Id, Content-Disposition, Content-Range, ETag, Location, Mcp-Session-Id, Retry-After, "+
					"X-Belljar-Mode, X-Workspace-Api-Version, "+RequestIDHeader)
		}
		return false
	}
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	if allowed {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Range, "+
			"Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id, Range, Traceparent, Tracestate, X-API-KEY, X-Belljar-Context-Id, "+
			"X-Belljar-Model, X-Belljar-Source, "+RequestIDHeader)
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent) // without the headers above the browser refuses the call
	return true
}

// OriginAllowed reports whether a WebSocket may be opened: without an Origin header (not a browser), from the server's
// own origin, or from an allowed one. Browsers do not apply CORS to WebSockets.
func (e *Edge) OriginAllowed(r *http.Request) bool {
	return len(r.Header.Values("Origin")) == 0 || e.origins.any() && len(r.Header.Values("Origin")) == 1 || e.OriginTrusted(r)
}

// OriginTrusted reports whether a web page may use credentials that its browser stores, such as a cookie. Its origin must be the
// server's own, or allowed by name. It is false without an Origin header.
func (e *Edge) OriginTrusted(r *http.Request) bool {
	given := r.Header.Values("Origin")
	if len(given) != 1 {
		return false
	}
	origin := strings.ToLower(given[0])
	if e.origins.listed(origin) {
		return true
	}
	from, err := url.Parse(origin)
	if err != nil || from.Host == "" || from.Path != "" || from.User != nil {
		return false // "null" too
	}
	own := e.base(r)
	return from.Scheme == own.Scheme && canonicalHost(from.Scheme, from.Host) == canonicalHost(own.Scheme, own.Host)
}

// canonicalHost returns host in lower case, without the scheme's default port.
func canonicalHost(scheme, host string) string {
	host = strings.ToLower(host)
	switch scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	}
	return host
}
