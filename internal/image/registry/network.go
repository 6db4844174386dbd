package registry

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
)

// Network connects to registries: to public addresses only, or to any address of the hosts that the operator has named.
type Network struct {
	registries []string
	stall      time.Duration
	streams    int
	keychain   *keychain

	world, named http.RoundTripper
	idle         []func()
	proxies      sync.Map // addresses of the operator's proxies, added when they are first used
}

// Options configure a [Network].
type Options struct {
	Registries      []string          // the hosts that the operator has named
	StallTimeout    time.Duration     // how long a registry may take for the next kibibyte
	Keychain        authn.Keychain    // nil is Docker's and Podman's configuration
	KeychainTimeout time.Duration     // limit for an answer of the keychain; 0 is 30 s
	Transport       http.RoundTripper // replaces the transport that refuses private addresses; for tests
	Streams         int               // how many connections to a host are kept open
}

const dialTimeout = 15 * time.Second

// New returns a network.
func New(o Options) *Network {
	n := &Network{registries: o.Registries, stall: o.StallTimeout, streams: o.Streams, keychain: newKeychain(o.Keychain, o.KeychainTimeout)}
	if o.Transport != nil {
		n.world, n.named = o.Transport, o.Transport
		return n
	}
	free := &net.Dialer{Timeout: dialTimeout}
	n.world = n.transport(func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, ok := n.proxies.Load(address); ok {
			return free.DialContext(ctx, network, address)
		}
		return guarded(ctx, network, address)
	})
	n.named = n.transport(func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, ok := n.proxies.Load(address); ok || n.lists(address) {
			return free.DialContext(ctx, network, address)
		}
		return guarded(ctx, network, address)
	})
	return n
}

func (n *Network) transport(dial func(ctx context.Context, network, address string) (net.Conn, error)) http.RoundTripper {
	t := &http.Transport{
		Proxy: n.proxy, DialContext: dial, ForceAttemptHTTP2: true, DisableCompression: true, // layers are already compressed
		TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: n.stall, IdleConnTimeout: 30 * time.Second,
		MaxIdleConnsPerHost: n.streams, MaxResponseHeaderBytes: 64 << 10, ReadBufferSize: 64 << 10,
	}
	n.idle = append(n.idle, t.CloseIdleConnections)
	return t
}

// proxy returns the operator's proxy, from the environment. The proxy resolves names, and has to check their addresses
// itself. An address in a URL is checked here.
func (n *Network) proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if u == nil || err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddr(r.URL.Hostname()); err == nil && !public(a) && !n.lists(hostPort(r.URL)) {
		return nil, &privateError{address: a.String()}
	}
	n.proxies.Store(hostPort(u), true)
	return u, nil
}

// hostPort returns the host of a URL with its port.
func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	case u.Scheme == "socks5", u.Scheme == "socks5h":
		port = "1080"
	default:
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// lists reports whether the operator has named host:port.
func (n *Network) lists(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(n.registries, func(r string) bool {
		h, p, err := net.SplitHostPort(r)
		if err != nil { // no port: the ports of HTTP
			return unbracket(r) == host && (port == "443" || port == "80")
		}
		return h == host && p == port
	})
}

// loopback reports whether a host, with or without a port, is this machine.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(unbracket(host))
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

func unbracket(host string) string {
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}

// way is the network for one pull.
type way struct {
	net   *Network
	named bool // the operator has named the pull's registry
	inner http.RoundTripper

	mu    sync.Mutex
	after string // the Retry-After of the last answer that had one
}

// RoundTrip sends a request if its address is allowed. It sends a password over a plain connection only within this
// machine.
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.URL.Scheme {
	case "https":
	case "http":
		secret := r.Body != nil && !loopback(r.URL.Host) // credentials may be in the body, too
		if !w.named || !w.net.lists(hostPort(r.URL)) || secret {
			return nil, &refusal{"it leads to " + r.URL.Host + " without TLS"}
		}
	default:
		return nil, &refusal{"it leads to " + r.URL.Scheme + ":"}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.Clone(ctx)
	r.Header.Set("User-Agent", "belljar")
	if auth := r.Header.Get("Authorization"); r.URL.Scheme == "http" && auth != "" && !bearer(auth) && !loopback(r.URL.Host) {
		r.Header.Del("Authorization")
	}
	resp, err := w.inner.RoundTrip(r)
	if err != nil {
		cancel(err)
		return nil, err
	}
	if after := resp.Header.Get("Retry-After"); after != "" {
		w.mu.Lock()
		w.after = after
		w.mu.Unlock()
	}
	resp.Body = &stallReader{ReadCloser: resp.Body, most: w.net.stall, cancel: cancel}
	return resp, nil
}

func bearer(header string) bool { return len(header) > 7 && header[:7] == "Bearer " }

func (w *way) retryAfter() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.after
}

// Close closes connections that are idle.
func (n *Network) Close() {
	for _, f := range n.idle {
		f()
	}
}
