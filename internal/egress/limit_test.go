package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

func TestConnectionLimit(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Connections = 3 })
	w.peer("a.example.com", public, 5432, echo)
	first := w.connect("a.example.com", 5432)
	w.connect("a.example.com", 5432)
	w.connect("a.example.com", 5432)
	w.wait("the connections", func() bool { return w.gate.Report().Allowed == 3 })
	w.refused("a.example.com", 5432, Limit)
	first.Close()
	w.wait("a free place", func() bool { w.gate.mu.Lock(); defer w.gate.mu.Unlock(); return len(w.gate.live) == 2 })
	w.connect("a.example.com", 5432)
	if got := w.records(); len(got) != 2 || got[1].Reason != Limit || got[1].Host != "a.example.com" {
		t.Errorf("recorded %+v", got)
	}
}

// An agent that requests thousands of connections and accepts none has a limited number in progress, each for a limited time.
func TestHalfOpen(t *testing.T) {
	var dialling, most atomic.Int64
	w := newWorld(t, func(o *Options) {
		o.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			n := dialling.Add(1)
			defer dialling.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			if until, ok := ctx.Deadline(); !ok || time.Until(until) > patient.dial {
				t.Errorf("dials until %v", until)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	w.dns.set("a.example.com", []netip.Addr{public})
	for i := range 10_000 {
		if !w.guest.ask(wire.Ask{ID: uint64(i), Open: &wire.Open{Host: "a.example.com", Port: 443}}) {
			t.Fatal("the relay ended")
		}
	}
	w.wait("the others to be denied", func() bool { return w.gate.Report().Denied == 10_000-wire.MuxCarried })
	w.wait("the dials", func() bool { return dialling.Load() == wire.MuxCarried })
	if got := most.Load(); got != wire.MuxCarried {
		t.Errorf("%d dials at once", got)
	}
	if got := w.records(); len(got) != 1 || got[0].Reason != Limit {
		t.Errorf("recorded %+v", got)
	}
}

// Connections whose program never sends its ClientHello hold only their own places.
func TestSilentConnections(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Connections = 20 })
	w.peer("a.example.com", public, 443, func(c net.Conn) { _, _ = io.ReadAll(c) })
	for range 20 {
		w.connect("a.example.com", 443)
	}
	w.refused("a.example.com", 443, Limit)
}

func TestNameLimits(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits = Limits{Names: 25, NewNames: 10} })
	allowed := 0
	name := func(i int) string { return fmt.Sprintf("n%d.example.com", i) }
	for i := range 40 {
		w.dns.set(name(i), []netip.Addr{public})
	}
	for i := range 15 {
		if got := w.guest.name(name(i)); got.OK {
			allowed++
		} else if got.Reason != string(Limit) {
			t.Errorf("%+v", got)
		}
	}
	if allowed != 10 || w.dns.count() != 10 {
		t.Errorf("%d of 15 names in an instant, %d lookups", allowed, w.dns.count())
	}
	if got := w.guest.name(name(0)); !got.OK {
		t.Errorf("a known name: %+v", got)
	}
	w.dns.set("example.org", []netip.Addr{public})
	if got := w.guest.name("example.org"); !got.OK {
		t.Errorf("a name that the rules spell out, which carries nothing out: %+v", got)
	}
	w.pass(500 * time.Millisecond)
	for i := 15; i < 25; i++ {
		if got := w.guest.name(name(i)); got.OK {
			allowed++
		}
	}
	if allowed != 15 {
		t.Errorf("%d names after half a second", allowed)
	}
	w.pass(time.Minute)
	for i := 25; i < 40; i++ {
		if got := w.guest.name(name(i)); got.OK {
			allowed++
		}
	}
	if allowed != 24 || w.dns.count() != 25 { // and example.org
		t.Errorf("%d names in all, %d lookups", allowed, w.dns.count())
	}
	if err := w.gate.Pin(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := w.dns.count()
	w.refused("yet.another.example.com", 443, Limit) // the next run of a session does not reset the count
	if w.dns.count() != before {
		t.Error("the name was looked up")
	}
}

// Names that never exist count like others: their labels carry data out.
func TestTunnel(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 1000 {
		w.guest.name(fmt.Sprintf("%032x.t.example.com", i))
		w.pass(time.Second / 100)
	}
	if n := w.dns.count(); n > 10+10*10 {
		t.Errorf("%d lookups in ten seconds", n)
	}
}

// Endless lookups are limited in number; other names, and connections to pinned addresses, continue.
func TestSlowResolver(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits = Limits{NewNames: 1000, Names: 1000} })
	w.peer("pinned.example.com", public, 5432, echo)
	if got := w.guest.name("pinned.example.com"); !got.OK {
		t.Fatal(got)
	}
	release := make(chan struct{})
	w.dns.wait = release
	for i := range 3 * wire.MaxAsked {
		w.guest.ask(wire.Ask{ID: uint64(1000 + i), Name: fmt.Sprintf("slow%d.example.com", i)})
	}
	w.wait("the others to be denied", func() bool { return w.gate.Report().Denied == 2*wire.MaxAsked })
	w.connect("pinned.example.com", 5432)
	close(release)
}

// An address that drops packets delays a connection of a sandbox or of Belljar by a moment, and many such addresses by a few seconds.
func TestDeadAddresses(t *testing.T) {
	dead, good := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")
	for n, want := range map[int]time.Duration{0: 0, 1: stagger, 3: 3 * stagger, 7: leastDial + 3*stagger, 8: 2 * leastDial, 20: 4*leastDial + 3*stagger} {
		synctest.Test(t, func(t *testing.T) {
			dns := &resolver{}
			dns.set("a.example.com", append(slices.Repeat([]netip.Addr{dead}, n), good))
			g := NewGate(Options{
				Policy: policyOf(t, "*.example.com"), Resolver: dns, Own: noOwn,
				Dial: func(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
					if at.Addr() == dead {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					c, _ := net.Pipe()
					return c, nil
				},
			})
			begun := time.Now()
			c, err := g.Dial(t.Context(), "a.example.com", 443)
			if took := time.Since(begun); (err == nil) != (n < maxAddrs) || took != want {
				t.Errorf("Belljar, %d dead addresses: %v after %v; want %v", n, err, took, want)
			} else if err == nil {
				c.Close()
			}
			begun = time.Now()
			sandbox := &conn{gate: g, host: "a.example.com", port: 443}
			sandbox.ctx, sandbox.cancel = context.WithCancelCause(t.Context())
			target, reason := sandbox.connect()
			if took := time.Since(begun); (reason == "") != (n < maxAddrs) || took != want {
				t.Errorf("a sandbox, %d dead addresses: %q after %v; want %v", n, reason, took, want)
			} else if reason == "" && sandbox.addr.Addr() != good {
				t.Errorf("the connection has the address %s", sandbox.addr)
			}
			if target != nil {
				target.Close()
			}
		})
	}
}

func TestByteLimits(t *testing.T) {
	for _, out := range []bool{true, false} {
		t.Run(fmt.Sprintf("out=%v", out), func(t *testing.T) {
			const limit = 1 << 20
			w := newWorld(t, func(o *Options) { o.Limits.Bytes = limit })
			w.peer("a.example.com", public, 5432, func(c net.Conn) {
				if out {
					_, _ = io.Copy(io.Discard, c)
				} else {
					_, _ = io.Copy(c, zeros{})
				}
			})
			c := w.connect("a.example.com", 5432)
			var n int64
			var err error
			if out {
				n, err = io.Copy(c, io.LimitReader(zeros{}, 100<<20))
			} else {
				n, err = io.Copy(io.Discard, c)
			}
			if err == nil || !out && n > limit {
				t.Errorf("%d bytes, %v", n, err)
			}
			w.denied("a.example.com", Limit)
			w.refused("a.example.com", 5432, Limit)
			for _, h := range w.gate.Report().Hosts {
				if h.BytesOut > limit || h.BytesIn > limit+mostBuffer {
					t.Errorf("%+v", h)
				}
			}
		})
	}
}

// A run reports its own connections, and records connections again that an earlier run has recorded.
func TestRunsOfASession(t *testing.T) {
	w := newWorld(t, nil)
	w.peer("a.example.com", public, 5432, echo)
	use := func() {
		t.Helper()
		c := w.connect("a.example.com", 5432)
		write(t, c, "hello")
		_ = c.CloseWrite()
		if _, err := readAll(t, c); err != nil {
			t.Error(err)
		}
		for range 3 {
			w.refused("evil.org", 443, NoMatch)
			w.guest.name("evil.org")
		}
	}
	use()
	w.refused("other.org", 443, NoMatch)
	if got := w.records(); len(got) != 3 {
		t.Errorf("recorded %+v", got)
	}
	if err := w.gate.Pin(t.Context()); err != nil { // example.org has no address
		t.Fatal(err)
	}
	mark := w.gate.Mark()
	use()
	use()
	r := w.gate.Since(mark)
	if r.Allowed != 2 || r.Denied != 12 || r.BytesIn != 10 || r.BytesOut != 10 || len(r.Hosts) != 2 {
		t.Errorf("report %+v", r)
	}
	if h := r.Hosts[0]; h.Host != "a.example.com" || h.Allowed != 2 || h.BytesIn != 10 {
		t.Errorf("%+v", h)
	}
	if h := r.Hosts[1]; h.Host != "evil.org" || h.Denied != 12 || h.Reason != string(NoMatch) {
		t.Errorf("%+v", h)
	}
	if got := w.records(); len(got) != 6 || got[3].Host != "example.org" || got[4].Host != "a.example.com" || got[5].Host != "evil.org" {
		t.Errorf("recorded %+v", got)
	}
	if r := w.gate.Report(); r.Allowed != 3 || len(r.Hosts) != 4 {
		t.Errorf("report %+v", r)
	}
}

// A flood of denials hides no denial of a later run.
func TestFloodHidesNoLaterRun(t *testing.T) {
	w := newWorld(t, nil)
	for i := range maxRows + 100 {
		w.refused(fmt.Sprintf("%d.evil.org", i), 443, NoMatch)
	}
	if err := w.gate.Pin(t.Context()); err != nil {
		t.Fatal(err)
	}
	mark := w.gate.Mark()
	seen := len(w.records())
	w.refused("1.evil.org", 443, NoMatch) // this row stays
	w.refused("late.evil.org", 443, NoMatch)
	w.refused("1.evil.org", 443, NoMatch)
	got := w.records()[seen:]
	if got = slices.DeleteFunc(got, func(e Event) bool { return e.Allowed || e.Host == "example.org" }); len(got) != 2 || got[1].Host != "late.evil.org" {
		t.Errorf("recorded %+v", got)
	}
	if r := w.gate.Since(mark); len(r.Hosts) < 2 || r.Hosts[len(r.Hosts)-2].Denied != 2 || r.Hosts[len(r.Hosts)-1].Host != "late.evil.org" {
		t.Errorf("report %+v", r)
	}
	if n := len(w.gate.rows); n != len(w.gate.order) || n > maxRows+1 {
		t.Errorf("%d rows", n)
	}
	for i := range maxRows {
		w.refused(fmt.Sprintf("%d.evil.net", i), 443, NoMatch)
	}
	late := func(h belljar.EgressHost) bool { return h.Host == "late.evil.org" }
	if r := w.gate.Since(mark); r.Denied != maxRows+3 || !slices.ContainsFunc(r.Hosts, late) {
		t.Errorf("after another flood: %+v", r)
	}
}

// A flood of denials cannot hide allowed connections.
func TestFloodHidesNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.peer("a.example.com", public, 5432, echo)
	for i := range 2000 {
		w.guest.ask(wire.Ask{ID: 1 << 40, Name: fmt.Sprintf("%d.evil.org", i)})
	}
	w.connect("a.example.com", 5432)
	w.wait("the record", func() bool { return len(w.records()) == maxHosts+1 })
	if got := w.records()[maxHosts]; got.Host != "a.example.com" {
		t.Errorf("recorded %+v", got)
	}
	r := w.gate.Report()
	if len(r.Hosts) != maxHosts || r.Hosts[0].Host != "a.example.com" || r.Denied != 2000 {
		t.Errorf("%d hosts, the first %+v", len(r.Hosts), r.Hosts[0])
	}
	if n := len(w.gate.rows); n > maxRows+1 {
		t.Errorf("%d rows", n)
	}
}

// A connection that the program closes without sending anything is recorded: the host has seen it.
func TestUnused(t *testing.T) {
	for _, port := range []uint16{80, 443, 5432} {
		w := newWorld(t, nil)
		w.peer("a.example.com", public, port, func(c net.Conn) { _, _ = io.ReadAll(c) })
		w.connect("a.example.com", port).Close()
		w.wait("the end", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.counted) == 1 })
		if r := w.gate.Report(); r.Allowed != 1 || r.Denied != 0 || len(w.records()) != 1 {
			t.Errorf("port %d: report %+v", port, r)
		}
	}
}

// A stream that the agent does not open ends both connections, the program's and the one to the host, which is recorded.
func TestAgentDoesNotAccept(t *testing.T) {
	w := newWorld(t, nil)
	gone := make(chan struct{}, 1)
	w.peer("a.example.com", public, 5432, func(c net.Conn) { _, _ = io.ReadAll(c); gone <- struct{}{} })
	g := newGuest()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- w.gate.Serve(ctx, g, func(ctx context.Context, _ uint64) (Stream, error) {
			until, ok := ctx.Deadline()
			if !ok || time.Until(until) > patient.accept {
				t.Errorf("accepts until %v", until)
			}
			return nil, errors.New("not found")
		})
	}()
	answered := make(chan wire.Answer, 1)
	g.waiting[1] = answered
	g.ask(wire.Ask{ID: 1, Open: &wire.Open{Host: "a.example.com", Port: 5432}})
	<-gone
	if a := <-answered; a != (wire.Answer{ID: 1, OK: true, Reason: string(Unreachable)}) {
		t.Errorf("answer %+v", a)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if r := w.gate.Report(); r.Allowed != 1 || r.Denied != 0 || len(w.records()) != 1 {
		t.Errorf("report %+v", r)
	}
}

func TestCheck(t *testing.T) {
	dns := &resolver{}
	dns.set("a.example.com", []netip.Addr{public, netip.MustParseAddr("2606:4700::1")})
	dns.set("private.example.com", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
	policy := policyOf(t, "*.example.com", "203.0.113.0/24", "192.168.0.0/24")
	server := policy
	server.Server, _ = ParseList("server", []string{"b.example.com"})
	private := policy
	private.Private = true
	closed := private
	closed.Server, _ = ParseList("server", []string{"*", "172.16.0.0/16"})
	for _, tt := range []struct {
		policy  Policy
		url     string
		host    string
		port    int
		rule    string
		reason  Reason
		message string
	}{
		{policy, "https://a.example.com/path?q", "a.example.com", 443, "*.example.com", "", "allowed by *.example.com, if the program speaks TLS with this name"},
		{policy, "HTTP://user@A.Example.com", "a.example.com", 80, "*.example.com", "", "allowed by *.example.com, if the program speaks HTTP with this name"},
		{policy, "postgres://a.example.com:5432/db", "a.example.com", 5432, "*.example.com", "", "allowed by *.example.com"},
		{policy, "a.example.com", "a.example.com", 443, "*.example.com", "", "allowed by"},
		{policy, "a.example.com:80", "a.example.com", 80, "*.example.com", "", "allowed by"},
		{policy, "wss://a.example.com", "a.example.com", 443, "*.example.com", "", "allowed by"},
		{policy, "https://203.0.113.5", "203.0.113.5", 443, "203.0.113.0/24", "", "allowed by 203.0.113.0/24"},
		{policy, "https://[::ffff:203.0.113.5]:443", "203.0.113.5", 443, "203.0.113.0/24", "", "allowed by"},
		{policy, "203.0.113.5", "203.0.113.5", 443, "203.0.113.0/24", "", "allowed by 203.0.113.0/24"},
		{policy, "2001:db8::7", "2001:db8::7", 443, "", NoMatch, "no rule covers 2001:db8::7"},
		{policy, "https://example.com", "example.com", 443, "", NoMatch, "no rule covers example.com"},
		{policy, "https://a_b.example.com", "a_b.example.com", 443, "", NoMatch, `"a_b.example.com" is not a host name`},
		{policy, "ssh://a.example.com:22", "a.example.com", 22, "", PortDenied, "port 22 is denied: the server allows 80, 443, 5432"},
		{policy, "https://missing.example.com", "missing.example.com", 443, "*.example.com", DNSFailed, "missing.example.com has no address that can be found"},
		{policy, "https://private.example.com", "private.example.com", 443, "*.example.com", PrivateAddress, "the address of private.example.com is not a public address, and the server allows public ones only"},
		{private, "https://private.example.com", "private.example.com", 443, "*.example.com", PrivateAddress, "the address of private.example.com is not a public address, and no rule of egress.ips or egress.cidrs names it or its range"},
		{closed, "https://private.example.com", "private.example.com", 443, "*.example.com", PrivateAddress, "the address of private.example.com is not a public address, and not one that the server's rules let a request open"},
		{closed, "https://192.168.0.7", "192.168.0.7", 443, "", PrivateAddress, "192.168.0.7 is not a public address, and not one that the server's rules let a request open"},
		{policy, "https://192.168.0.7", "192.168.0.7", 443, "", PrivateAddress, "192.168.0.7 is not a public address"},
		{private, "https://192.168.0.7", "192.168.0.7", 443, "192.168.0.0/24", "", "allowed by"},
		{server, "https://a.example.com", "a.example.com", 443, "", NoMatch, "the server's policy does not cover a.example.com"},
		{Policy{}, "https://a.example.com", "a.example.com", 443, "", PortDenied, "port 443 is denied: the server allows no port"},
		{policy, "ftp://a.example.com", "", 0, "", "", `the port of "ftp" is not known`},
		{policy, "https://", "", 0, "", "", "is not a URL with a host"},
		{policy, "", "", 0, "", "", "is not a URL with a host"},
		{policy, "https://a.example.com:99999", "", 0, "", "", `"99999" is not a port`},
		{policy, "https://a.example.com:0", "", 0, "", "", `"0" is not a port`},
		{policy, "https://a b/", "", 0, "", "", "is not a URL with a host"},
	} {
		got := Check(t.Context(), tt.policy, nil, dns, tt.url)
		allowed := tt.reason == "" && strings.HasPrefix(tt.message, "allowed")
		if got.URL != tt.url || got.Host != tt.host || got.Port != tt.port || got.Rule != tt.rule || got.Reason != string(tt.reason) || got.Allowed != allowed || !strings.Contains(got.Message, tt.message) {
			t.Errorf("%s: %+v", tt.url, got)
		}
		if shown := allowed || strings.Contains(tt.message, "no rule of egress.ips"); shown != (len(got.Addresses) > 0) {
			t.Errorf("%s: addresses %v", tt.url, got.Addresses)
		}
	}
}

// Many different names under one wildcard, which may carry data to its owner, are counted: once each, and for the run that used them.
func TestManyNames(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.NewNames = 1000 })
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			name := fmt.Sprintf("n%d.example.com", i)
			w.dns.set(name, []netip.Addr{public})
			if got := w.guest.name(name); !got.OK {
				t.Fatalf("%s: %+v", name, got)
			}
		}
	}
	w.dns.set("example.org", []netip.Addr{public})
	first := w.gate.Mark()
	ask(0, manyNames-1)
	ask(0, manyNames-1)
	w.guest.name("example.org") // a rule names it exactly
	if got := w.gate.ManyNames(first); got != nil {
		t.Errorf("%v", got)
	}
	second := w.gate.Mark()
	ask(manyNames-1, manyNames+1)
	if got := w.gate.ManyNames(first); len(got) != 1 || got[0] != (Names{"*.example.com", manyNames + 1}) {
		t.Errorf("%v", got)
	}
	if got := w.gate.ManyNames(second); got != nil {
		t.Errorf("a later run: %v", got)
	}
}
