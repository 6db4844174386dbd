package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ParseURL parses the address of a server: http or https, a host, an optional port and path, and nothing else. The result has a port,
// a lower-case host, and a path without a trailing slash.
func ParseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" {
		return nil, errors.New("must be http://host or https://host, with a port and a path or without")
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(s, "#") {
		return nil, errors.New("must have no user, query or fragment")
	}
	host, port := u.Hostname(), u.Port()
	if err := CheckHost(host); err != nil {
		return nil, err
	}
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return nil, errors.New("has an empty port")
		}
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return nil, errors.New("has no port from 1 to 65535")
	}
	trimmed := strings.TrimSuffix(u.Path, "/")
	if u.RawPath != "" || trimmed != "" && (path.Clean(trimmed) != trimmed || strings.ContainsAny(trimmed, "\\;")) {
		return nil, errors.New("has a path with more than one meaning")
	}
	return &url.URL{Scheme: u.Scheme, Host: net.JoinHostPort(strings.ToLower(host), port), Path: trimmed}, nil
}

// CheckHost refuses text that is neither a host name nor a common form of an address: some resolvers read 0x7f.1 or 2130706433 as
// 127.0.0.1.
func CheckHost(host string) error {
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" || classify(a) == forbidden {
			return errors.New("is an address that is not connected to")
		}
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			return errors.New("has no valid host")
		}
	}
	last := strings.ToLower(labels[len(labels)-1])
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return errors.New("is a number in place of a host")
	}
	return nil
}

// class is the kind of network that an address belongs to.
type class string

const (
	loopback  class = "loopback"
	private   class = "private"
	public    class = "public"
	forbidden class = "forbidden"
)

// classify returns the class of an address. IPv6 forms that carry an IPv4 address across a translator are forbidden: the network
// decides where they lead.
func classify(a netip.Addr) class {
	a = a.Unmap()
	for _, p := range []string{"64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "fd00:ec2::/32", "fec0::/10"} {
		if prefix := netip.MustParsePrefix(p); prefix.Contains(a) && !a.IsLoopback() {
			return forbidden
		}
	}
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast(), a.IsInterfaceLocalMulticast():
		return forbidden
	case a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 224):
		return forbidden
	case a.IsLoopback():
		return loopback
	case a.IsPrivate(), a.Is4() && a.As4()[0] == 100 && a.As4()[1]&0xc0 == 64:
		return private
	}
	return public
}

// pinned is how long the addresses of a name are reused before it is resolved again.
const pinned = 30 * time.Second

// names resolves one host. It connects only to addresses that it has checked.
type names struct {
	host   string
	port   uint16
	secure bool
	lookup func(context.Context, string) ([]netip.Addr, error)

	mu    sync.Mutex
	class class // of the first resolution; "" before it
	addrs []netip.Addr
	until time.Time
}

func newNames(u *url.URL, lookup func(context.Context, string) ([]netip.Addr, error)) *names {
	port, _ := strconv.Atoi(u.Port())
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	return &names{host: u.Hostname(), port: uint16(port), secure: u.Scheme == "https", lookup: lookup}
}

// resolve returns the addresses of the host. All must have the class of the first ones: a public name that becomes private is an
// attack, or a mistake.
func (n *names) resolve(ctx context.Context) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Now().Before(n.until) {
		return n.addrs, nil
	}
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(n.host); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = n.lookup(ctx, n.host); err != nil || len(addrs) == 0 {
		return nil, &Failure{Reason: Unreachable, text: "its name cannot be resolved"}
	}
	first := n.class
	for i, a := range addrs {
		addrs[i] = a.Unmap()
		c := classify(a)
		switch {
		case c == forbidden:
			return nil, refused("its name leads to an address that is not connected to")
		case c == public && !n.secure:
			return nil, refused("it is on a public network, so its address must begin with https://")
		case first == "":
			first = c
		case c != first:
			return nil, refused("its name leads to another network than before")
		}
	}
	n.class, n.addrs, n.until = first, addrs, time.Now().Add(pinned)
	return addrs, nil
}

// dial connects to the host and ignores the given address: the guard sends requests to no other host.
func (n *names) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	addrs, err := n.resolve(ctx)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{KeepAlive: 15 * time.Second}
	for _, a := range addrs {
		var conn net.Conn
		if conn, err = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(a, n.port).String()); err == nil {
			return conn, nil
		}
	}
	return nil, err
}
