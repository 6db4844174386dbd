package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// publicOnly is the control function of a dialer that connects to public addresses only. It checks the resolved address,
// so a name cannot resolve to another address a moment later.
func publicOnly(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &privateError{address: address}
	}
	if !public(to.Addr()) {
		return &privateError{address: to.Addr().String()}
	}
	return nil
}

// privateError means that a registry is, or has redirected to, an address that only the operator may allow.
type privateError struct{ address, host string }

func (e *privateError) Error() string { return fmt.Sprintf("%s is not a public address", e.address) }

// shown is the error without what a name resolves to, which would show callers the operator's network.
func (e *privateError) shown() string {
	if _, err := netip.ParseAddr(e.host); err != nil && e.host != "" {
		return fmt.Sprintf("the address of %s is not a public address", e.host)
	}
	return e.Error()
}

// guarded dials public addresses.
func guarded(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialTimeout, Control: publicOnly}
	conn, err := d.DialContext(ctx, network, address)
	if private, ok := errors.AsType[*privateError](err); ok {
		private.host, _, _ = net.SplitHostPort(address)
	}
	return conn, err
}

// special lists the networks within the public address space that are not public.
func special() []netip.Prefix {
	list := []string{
		"168.63.129.16/32", // the host, on one cloud
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "3fff::/20",
	}
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public reports whether an address is public on the Internet: not this machine, not its network, not a cloud's
// metadata, nor an IPv6 address that contains such an IPv4 address.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range special() {
		if p.Contains(a) {
			return false
		}
	}
	if a.Is4() {
		return true
	}
	b := a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a): // NAT64
		return public(netip.AddrFrom4([4]byte(b[12:16])))
	case netip.MustParsePrefix("2002::/16").Contains(a): // 6to4
		return public(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return netip.MustParsePrefix("2000::/3").Contains(a)
}
