package api

import (
	"net/http"
	"net/url"
	"strings"
)

// URL returns the absolute URL of path ("/api/…", with an optional query) for this client. Its base is
// SANDBOX_PUBLIC_URL, or by default the request's host.
func (e *Edge) URL(r *http.Request, path string) string {
	base := e.base(r)
	return base.Scheme + "://" + base.Host + base.Path + path
}

// WebSocketURL is URL with the scheme ws or wss.
func (e *Edge) WebSocketURL(r *http.Request, path string) string {
	base := e.base(r)
	scheme := "ws"
	if base.Scheme == "https" {
		scheme = "wss"
	}
	return scheme + "://" + base.Host + base.Path + path
}

// BasePath is the path of SANDBOX_PUBLIC_URL without a trailing slash, for URLs without a host.
func (e *Edge) BasePath() string {
	if e.public == nil {
		return ""
	}
	return e.public.Path
}

// base is the server's URL for this client. Its Path has no trailing slash.
func (e *Edge) base(r *http.Request) url.URL {
	if e.public != nil {
		return *e.public
	}
	scheme := "http"
	if rec := recordOf(r.Context()); rec != nil {
		scheme = rec.scheme
	} else if r.TLS != nil {
		scheme = "https"
	}
	return url.URL{Scheme: scheme, Host: r.Host}
}

// saneHost reports whether a Host header is safe in URLs: no white space, quotes, slashes or credentials.
func saneHost(host string) bool {
	if host == "" || len(host) > 255 {
		return false
	}
	for _, c := range []byte(host) {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~:[]%", c) >= 0
		if !ok {
			return false
		}
	}
	return true
}
