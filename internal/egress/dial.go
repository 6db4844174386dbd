package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// DeniedError is why a host may not be, or could not be, connected to.
type DeniedError struct {
	Host   string
	Port   uint16
	Reason Reason
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s, port %d: %s", e.Host, e.Port, e.Reason)
}

// Dial connects Belljar itself to a host, as a sandbox with the gate's policy would be connected. The error is [DeniedError], or that of
// the last dial.
func (g *Gate) Dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	g.mu.Lock()
	v := g.policy.decide(host, port)
	g.mu.Unlock()
	denied := &DeniedError{Host: host, Port: port, Reason: v.reason}
	if v.reason != "" {
		return nil, denied
	}
	addrs := []netip.Addr{v.ip}
	if !v.ip.IsValid() {
		p := g.lookup(ctx, v.host)
		if denied.Reason = p.reason(); denied.Reason != "" {
			return nil, denied
		}
		addrs = p.addrs
	}
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	var err error = &DeniedError{Host: host, Port: port, Reason: PrivateAddress}
	for _, ip := range g.admitted(v.host, addrs) {
		var conn net.Conn
		if conn, err = g.opts.Dial(ctx, netip.AddrPortFrom(ip, port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}
