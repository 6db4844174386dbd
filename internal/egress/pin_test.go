package egress

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// Concurrent users of a name share one lookup, even if the first has stopped waiting.
func TestSharedLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &resolver{wait: make(chan struct{})}
		dns.set("a.example.com", []netip.Addr{public})
		g := NewGate(Options{Policy: policyOf(t, "*.example.com"), Resolver: dns, Own: noOwn})
		ask := func(ctx context.Context) <-chan *pin {
			got := make(chan *pin, 1)
			go func() { got <- g.lookup(ctx, "a.example.com") }()
			synctest.Wait() // until it waits for an answer
			return got
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := ask(ctx), ask(t.Context())
		if n := dns.count(); n != 1 {
			t.Errorf("%d lookups for two", n)
		}
		cancel()
		if p := <-first; p.reason() != DNSFailed {
			t.Errorf("given up: %+v", p)
		}
		third := ask(t.Context())
		close(dns.wait)
		if a, b := <-second, <-third; a != b || len(a.addrs) != 1 {
			t.Errorf("%+v, %+v", a, b)
		}
		if n := dns.count(); n != 1 {
			t.Errorf("%d lookups", n)
		}
	})
}

// late is a resolver whose first server is dead.
type late struct{ *resolver }

func (r late) LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error) {
	select {
	case <-time.After(5 * time.Second):
		return r.resolver.LookupNetIP(ctx, network, name)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A program that requests a name again gets it from the resolver's second server. Belljar itself, and a connection, wait for that
// server.
func TestDeadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := late{&resolver{}}
		dns.set("a.example.com", []netip.Addr{public})
		opts := Options{Policy: policyOf(t, "*.example.com"), Resolver: dns, Own: noOwn, Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			return new(net.TCPConn), nil
		}}
		if _, err := NewGate(opts).Dial(t.Context(), "a.example.com", 443); err != nil {
			t.Error(err)
		}
		if got := Check(t.Context(), opts.Policy, nil, dns, "https://a.example.com"); !got.Allowed {
			t.Errorf("%+v", got)
		}
		g := NewGate(opts)
		if p := g.lookup(t.Context(), "a.example.com"); p.reason() != DNSFailed || p.missing {
			t.Errorf("at first: %+v", p)
		}
		if p := g.lookup(t.Context(), "a.example.com"); len(p.addrs) != 1 {
			t.Errorf("again: %+v", p)
		}
	})
}

// A name that takes longer than the start of a run waits has not failed: a program that uses it waits as long as without pinning.
func TestSlowPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &resolver{wait: make(chan struct{})}
		dns.set("a.example.com", []netip.Addr{public})
		g := NewGate(Options{Policy: policyOf(t, "a.example.com"), Resolver: dns, Own: noOwn})
		begun := time.Now()
		if err := g.Pin(t.Context()); err != nil || time.Since(begun) != usual.pin {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if r := g.Report(); r.Denied != 0 {
			t.Errorf("report %+v", r)
		}
		time.AfterFunc(usual.name-time.Second, func() { close(dns.wait) })
		if p := g.lookup(t.Context(), "a.example.com"); len(p.addrs) != 1 {
			t.Errorf("%+v", p)
		}
	})
}
