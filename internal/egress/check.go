package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
)

// Check returns the result of a connection to a URL, and the reason. It resolves the name and dials nothing. The broker is nil for
// a sandbox without brokered secrets.
func Check(ctx context.Context, p Policy, b *Broker, resolver Resolver, rawURL string) belljar.NetworkCheck {
	check := belljar.NetworkCheck{URL: rawURL}
	host, port, err := target(rawURL)
	if err != nil {
		check.Message = err.Error()
		return check
	}
	check.Host, check.Port = host, int(port)
	v := p.decide(host, port)
	check.Rule, check.Reason = v.rule, string(v.reason)
	if v.host != "" {
		check.Host = v.host
	}
	if v.reason != "" {
		check.Message = p.why(host, port, v)
		return check
	}
	if !b.takes(v.host, port) {
		check.Reason = string(Brokered)
		check.Message = v.host + " has a brokered secret, and is reached over HTTPS on port 443 only"
		return check
	}
	addrs := []netip.Addr{v.ip}
	if !v.ip.IsValid() {
		if resolver == nil {
			resolver = net.DefaultResolver
		}
		g := NewGate(Options{Policy: p, Resolver: resolver})
		addrs = g.resolve(ctx, v.host).addrs
	}
	own, err := ownAddresses()
	usable := false
	for _, ip := range addrs {
		admitted := err == nil && p.admits(v.host, ip, own)
		usable = usable || admitted
		if admitted || p.opens(ip) { // other addresses would reveal a network that no request can reach
			check.Addresses = append(check.Addresses, ip.String())
		}
	}
	switch {
	case len(addrs) == 0:
		check.Reason, check.Message = string(DNSFailed), v.host+" has no address that can be found"
	case !usable:
		v.reason, v.server = PrivateAddress, !slices.ContainsFunc(addrs, p.opens)
		check.Reason, check.Message = string(PrivateAddress), p.why(host, port, v)
	default:
		check.Allowed, check.Message = true, p.how(v, port)
		if b.brokers(v.host) {
			check.Message += "; the request gets a brokered secret"
		}
	}
	return check
}

// why explains a denial.
func (p *Policy) why(host string, port uint16, v verdict) string {
	switch {
	case v.reason == PortDenied && len(p.Ports) == 0:
		return fmt.Sprintf("port %d is denied: the server allows no port", port)
	case v.reason == PortDenied:
		var ports []string
		for _, n := range p.Ports {
			ports = append(ports, strconv.Itoa(int(n)))
		}
		return fmt.Sprintf("port %d is denied: the server allows %s", port, strings.Join(ports, ", "))
	case v.reason == PrivateAddress && !p.Private:
		return fmt.Sprintf("%s is not a public address, and the server allows public ones only", v.name())
	case v.reason == PrivateAddress && v.server:
		return fmt.Sprintf("%s is not a public address, and not one that the server's rules let a request open", v.name())
	case v.reason == PrivateAddress:
		return fmt.Sprintf("%s is not a public address, and no rule of egress.ips or egress.cidrs names it or its range", v.name())
	case v.host == "":
		return fmt.Sprintf("%q is not a host name", clip(host))
	case v.server:
		return fmt.Sprintf("the server's policy does not cover %s", v.host)
	default:
		return fmt.Sprintf("no rule covers %s", v.host)
	}
}

func (v verdict) name() string {
	if v.ip.IsValid() {
		return v.host
	}
	return "the address of " + v.host
}

// how describes the gate's checks of an allowed connection.
func (p *Policy) how(v verdict, port uint16) string {
	text := "allowed by " + v.rule
	switch {
	case v.ip.IsValid():
	case port == 443:
		text += ", if the program speaks TLS with this name"
	case port == 80:
		text += ", if the program speaks HTTP with this name"
	}
	return text
}

// target returns the host and port of a URL, or of a host with an optional port.
func target(rawURL string) (host string, port uint16, err error) {
	if ip, err := netip.ParseAddr(rawURL); err == nil && ip.Is6() {
		rawURL = "[" + rawURL + "]" // the last colon of an IPv6 address begins no port
	}
	if !strings.Contains(rawURL, "://") {
		rawURL = "https://" + rawURL
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" {
		return "", 0, fmt.Errorf("%q is not a URL with a host", clip(rawURL))
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return "", 0, fmt.Errorf("%q is not a port", clip(text))
		}
		return u.Hostname(), uint16(n), nil
	}
	switch strings.ToLower(u.Scheme) {
	case "https", "wss":
		return u.Hostname(), 443, nil
	case "http", "ws":
		return u.Hostname(), 80, nil
	}
	return "", 0, fmt.Errorf("the port of %q is not known: write it into the URL", clip(u.Scheme))
}
