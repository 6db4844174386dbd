package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// DeniedError is the reason why a connection to a host is denied or failed.
type DeniedError struct {
	Host   string
	Port   uint16
	Reason Reason
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s, port %d: %s", e.Host, e.Port, e.Reason)
}

// Dial connects Belljar itself to a host under the gate's policy. The error is [DeniedError], or that of the last dial.
func (g *Gate) Dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	g.mu.Lock()
	v := g.policy.decide(host, port)
	g.mu.Unlock()
	denied := &DeniedError{Host: host, Port: port, Reason: v.reason}
	if v.reason != "" {
		return nil, denied
	}
	conn, reason, err := g.reach(ctx, v.host, v.ip, port, func(addr netip.AddrPort) bool {
		return len(g.admitted(v.host, []netip.Addr{addr.Addr()})) > 0
	})
	if conn == nil && reason != Unreachable {
		denied.Reason = reason
		return nil, denied
	}
	return conn, err
}

const (
	stagger    = 300 * time.Millisecond // between the dials of two addresses, unless the first fails earlier
	dialAtOnce = 4                      // addresses dialled at the same time
	leastDial  = 2 * time.Second        // time for each of many addresses
)

// reach resolves a host, unless it is the address ip, and dials its addresses until one answers. It calls take for each address before
// it dials it, and for the one that has answered. The error is that of the last dial.
func (g *Gate) reach(ctx context.Context, host string, ip netip.Addr, port uint16, take func(netip.AddrPort) bool) (net.Conn, Reason, error) {
	addrs := []netip.Addr{ip}
	if !ip.IsValid() {
		p := g.resolve(ctx, host)
		if reason := p.reason(); reason != "" {
			return nil, reason, nil
		}
		addrs = p.addrs
	}
	ctx, cancel := context.WithTimeout(ctx, g.waits.dial)
	defer cancel()
	each := max(g.waits.dial/time.Duration(len(addrs)), leastDial)
	type result struct {
		addr netip.AddrPort
		conn net.Conn
		err  error
	}
	results := make(chan result)
	next := time.NewTimer(0)
	defer next.Stop()
	reason, failure := PrivateAddress, error(nil)
	for open := 0; open > 0 || len(addrs) > 0; {
		var due <-chan time.Time
		if len(addrs) > 0 && open < dialAtOnce {
			due = next.C
		}
		select {
		case <-due:
			addr := netip.AddrPortFrom(addrs[0], port)
			addrs = addrs[1:]
			if !take(addr) {
				next.Reset(0)
				continue
			}
			reason = Unreachable
			open++
			go func() {
				limited, stop := context.WithTimeout(ctx, each)
				defer stop()
				conn, err := g.opts.Dial(limited, addr)
				select {
				case results <- result{addr, conn, err}:
				case <-ctx.Done():
					if err == nil {
						_ = conn.Close()
					}
				}
			}()
			next.Reset(stagger)
		case r := <-results:
			open--
			switch {
			case r.err != nil:
				failure = r.err
			case take(r.addr):
				return r.conn, "", nil
			default: // the policy has changed
				_ = r.conn.Close()
				reason = PrivateAddress
			}
			next.Reset(0)
		case <-ctx.Done():
			return nil, reason, ctx.Err()
		}
	}
	return nil, reason, failure
}
