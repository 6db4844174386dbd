package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientOf returns the address of a request's client, "" if it has none, and the scheme that it used, as the edge sees them.
func ClientOf(ctx context.Context) (address, scheme string) {
	if rec := recordOf(ctx); rec != nil {
		return rec.address, rec.scheme
	}
	return "", "http"
}

// proxies are the networks whose X-Forwarded headers are trusted.
type proxies []netip.Prefix

func (p proxies) trust(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
}

// client returns the client's address ("" if it has none, as over a unix socket) and the scheme that it used.
// X-Forwarded-For is read from its end, where the nearest proxy wrote, up to the first address that is not a trusted
// proxy: the client may have forged the rest.
func (p proxies) client(r *http.Request) (address, scheme string) {
	scheme = "http"
	if r.TLS != nil {
		scheme = "https"
	}
	at, ok := peer(r.RemoteAddr)
	if !ok {
		return "", scheme
	}
	if !p.trust(at) {
		return at.String(), scheme
	}
	if proto := last(r.Header.Values("X-Forwarded-Proto")); proto == "http" || proto == "https" {
		scheme = proto
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trust(at); i-- {
		hop, ok := peer(strings.TrimSpace(hops[i]))
		if !ok {
			break
		}
		at = hop
	}
	return at.String(), scheme
}

// peer reads an address with or without a port.
func peer(s string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap().WithZone(""), err == nil
}

// last is the last element of a header that is a comma-separated list, in lower case.
func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	list := strings.Split(values[len(values)-1], ",")
	return strings.ToLower(strings.TrimSpace(list[len(list)-1]))
}
