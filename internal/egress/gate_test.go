package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

func TestNames(t *testing.T) {
	w := newWorld(t, nil)
	w.dns.set("a.example.com", []netip.Addr{public})
	w.dns.set("private.example.com", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
	w.dns.set("empty.example.com", nil)
	for _, tt := range []struct {
		name    string
		reason  Reason
		missing bool
	}{
		{"a.example.com", "", false},
		{"A.Example.COM.", "", false},
		{"example.com", NoMatch, false},
		{"evilexample.com", NoMatch, false},
		{"203.0.113.10", NoMatch, false},
		{"a.example.com\x00", NoMatch, false},
		{"private.example.com", PrivateAddress, false},
		{"missing.example.com", DNSFailed, true},
		{"empty.example.com", DNSFailed, false},
	} {
		got := w.guest.name(tt.name)
		if got.OK != (tt.reason == "") || got.Reason != string(tt.reason) || got.Missing != tt.missing {
			t.Errorf("%q: %+v", tt.name, got)
		}
	}
	for _, name := range w.dns.asked {
		if !strings.HasSuffix(name, ".example.com.") {
			t.Errorf("the resolver was asked for %q", name)
		}
	}
	if n := w.dns.count(); n != 4 {
		t.Errorf("%d lookups: %v", n, w.dns.asked)
	}
}

// A denied name never reaches a resolver: it could carry data out.
func TestDeniedNamesStayInside(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"c2VjcmV0.evil.org", "secret.example.org", "x.com", "a_b.example.com", strings.Repeat("a.", 130) + "example.com", ""} {
		if got := w.guest.name(name); got.Reason != string(NoMatch) {
			t.Errorf("%.40q: %+v", name, got)
		}
		w.refused(name, 443, NoMatch)
	}
	if n := w.dns.count(); n != 0 {
		t.Errorf("the resolver was asked for %v", w.dns.asked)
	}
}

func TestCarries(t *testing.T) {
	w := newWorld(t, nil)
	w.peer("db.example.com", public, 5432, echo)
	c := w.connect("db.example.com", 5432)
	write(t, c, "hello")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(t, c); got != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	w.wait("the end", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.counted) == 1 })
	want := Event{Allowed: true, Host: "db.example.com", IP: public, Port: 5432, Rule: "*.example.com"}
	if got := w.records(); len(got) != 1 || got[0] != want {
		t.Errorf("recorded %+v", got)
	}
	want.BytesIn, want.BytesOut = 5, 5
	if w.counted[0] != want {
		t.Errorf("counted %+v", w.counted[0])
	}
	report := w.gate.Report()
	host := belljar.EgressHost{Host: "db.example.com", IP: public.String(), Rule: "*.example.com", Allowed: 1, BytesIn: 5, BytesOut: 5}
	if report.Allowed != 1 || report.Denied != 0 || report.BytesIn != 5 || report.BytesOut != 5 || len(report.Hosts) != 1 || report.Hosts[0] != host {
		t.Errorf("report %+v", report)
	}
}

// The end of one side leaves the other side open, in both directions.
func TestHalfClose(t *testing.T) {
	w := newWorld(t, nil)
	w.peer("first.example.com", public, 5432, func(c net.Conn) { // the program ends first
		got, err := io.ReadAll(c)
		if err == nil {
			_, _ = io.WriteString(c, "got "+string(got))
		}
	})
	c := w.connect("first.example.com", 5432)
	write(t, c, "question")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(t, c); got != "got question" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}

	received := make(chan string, 1)
	w.peer("last.example.com", netip.MustParseAddr("203.0.113.11"), 5432, func(c net.Conn) { // the peer ends first
		_, _ = io.WriteString(c, "greeting")
		_ = c.(*net.TCPConn).CloseWrite()
		got, _ := io.ReadAll(c)
		received <- string(got)
	})
	c = w.connect("last.example.com", 5432)
	if got, err := readAll(t, c); got != "greeting" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	write(t, c, "answer after the end")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != "answer after the end" {
		t.Errorf("the peer read %q", got)
	}
}

// A broken side must not look like one that ended.
func TestResets(t *testing.T) {
	w := newWorld(t, nil)
	broke := make(chan error, 1)
	w.peer("peer.example.com", public, 5432, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 4))
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	c := w.connect("peer.example.com", 5432)
	write(t, c, "ping")
	if got, err := readAll(t, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the peer's reset the program reads %q, %v", got, err)
	}

	w.peer("program.example.com", netip.MustParseAddr("203.0.113.11"), 5432, func(c net.Conn) {
		_, err := io.ReadAll(c)
		broke <- err
	})
	c = w.connect("program.example.com", 5432)
	write(t, c, "half of")
	_ = c.SetLinger(0)
	_ = c.Close()
	if err := <-broke; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the program's reset the peer reads %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	w := newWorld(t, nil)
	w.dns.set("down.example.com", []netip.Addr{public})
	w.refused("down.example.com", 5432, Unreachable)
	if r := w.gate.Report(); r.Allowed != 1 || r.Denied != 0 || r.Hosts[0].Reason != string(Unreachable) || r.Hosts[0].IP != public.String() {
		t.Errorf("report %+v", r)
	}
}

// The second address is dialled if the first does not answer.
func TestSecondAddress(t *testing.T) {
	w := newWorld(t, nil)
	second := netip.MustParseAddr("2606:4700::1")
	w.peer("two.example.com", second, 5432, echo)
	w.dns.set("two.example.com", []netip.Addr{public, second})
	c := w.connect("two.example.com", 5432)
	write(t, c, "x")
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if got := w.dials(); len(got) != 2 || got[0].Addr() != public || got[1].Addr() != second {
		t.Errorf("dialled %v", got)
	}
}

// Whatever a resolver answers for an allowed name, only public addresses are dialled.
func TestRebinding(t *testing.T) {
	for _, lie := range []string{
		"127.0.0.1", "127.0.0.53", "0.0.0.0", "10.0.0.1", "100.100.100.200", "169.254.169.254", "172.17.0.1", "192.168.0.1", "224.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::7f00:1", "fd00:ec2::254", "fe80::1", "fe80::1%1", "ff02::1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1",
		"203.0.113.99", // the host's own
	} {
		t.Run(lie, func(t *testing.T) {
			w := newWorld(t, func(o *Options) {
				o.Own = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("203.0.113.99")}, nil }
				o.Policy.Private = true // even so, no rule of the run names the address
			})
			bad := netip.MustParseAddr(lie)
			w.peer("a.example.com", public, 5432, echo)
			w.dns.set("a.example.com", []netip.Addr{public}, []netip.Addr{bad})
			if got := w.guest.name("a.example.com"); !got.OK {
				t.Fatal(got)
			}
			w.connect("a.example.com", 5432) // pinned: the second answer is not requested
			if n := w.dns.count(); n != 1 {
				t.Errorf("%d lookups", n)
			}
			if err := w.gate.Pin(t.Context()); err != nil { // another run
				t.Fatal(err)
			}
			if got := w.guest.name("a.example.com"); got.Reason != string(PrivateAddress) {
				t.Errorf("the name: %+v", got)
			}
			w.refused("a.example.com", 5432, PrivateAddress)

			w.dns.set("both.example.com", []netip.Addr{bad, public})
			w.connect("both.example.com", 5432)
			for _, at := range w.dials() {
				if at.Addr() != public {
					t.Errorf("dialled %s", at)
				}
			}
			w.denied("a.example.com", PrivateAddress)
		})
	}
}

// If the host's own addresses are unknown, no address is dialled.
func TestOwnUnknown(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Own = func() ([]netip.Addr, error) { return nil, errors.New("no list") } })
	w.peer("a.example.com", public, 5432, echo)
	w.refused("a.example.com", 5432, PrivateAddress)
	if got := w.dials(); len(got) != 0 {
		t.Errorf("dialled %v", got)
	}
}

// A pin lasts for one run: the next run resolves again.
func TestPins(t *testing.T) {
	w := newWorld(t, nil)
	old, next := public, netip.MustParseAddr("203.0.113.20")
	w.listen(netip.AddrPortFrom(old, 5432), echo)
	w.listen(netip.AddrPortFrom(next, 5432), echo)
	w.dns.set("example.org", []netip.Addr{old}, []netip.Addr{next})
	pin := func() {
		t.Helper()
		if err := w.gate.Pin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pin()
	if n := w.dns.count(); n != 1 {
		t.Errorf("%d lookups at the start of a run: %v", n, w.dns.asked)
	}
	for range 3 {
		w.connect("example.org", 5432)
	}
	pin()
	w.connect("example.org", 5432)
	var got []netip.Addr
	for _, at := range w.dials() {
		got = append(got, at.Addr())
	}
	if !slices.Equal(got, []netip.Addr{old, old, old, next}) {
		t.Errorf("dialled %v", got)
	}
	if n := w.dns.count(); n != 2 {
		t.Errorf("%d lookups", n)
	}
}

// A name that fails at the start of a run is recorded, and tried again when it is used some seconds
// later.
func TestPinFails(t *testing.T) {
	w := newWorld(t, nil)
	w.dns.err = errors.New("server misbehaving")
	if err := w.gate.Pin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.records(); len(got) != 1 || got[0].Host != "example.org" || got[0].Reason != DNSFailed {
		t.Errorf("recorded %+v", got)
	}
	w.dns.err = nil
	w.peer("example.org", public, 5432, echo)
	if got := w.guest.name("example.org"); got.OK || got.Missing {
		t.Errorf("at once: %+v", got)
	}
	w.pass(failedFor)
	w.connect("example.org", 5432)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.gate.Pin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was given up: %v", err)
	}
	w.connect("example.org", 5432) // its lookup fails
}

// Many names are pinned concurrently, each with a limited number of addresses.
func TestPinMany(t *testing.T) {
	var hosts []string
	for i := range MaxRules {
		hosts = append(hosts, "h"+strings.Repeat("x", i%50)+string(rune('a'+i/50%26))+".example.com")
	}
	rules, err := ParseRules(belljar.Egress{Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(o *Options) { o.Policy.Run = rules })
	for _, h := range hosts {
		w.dns.set(h, slices.Repeat([]netip.Addr{public}, 100))
	}
	if err := w.gate.Pin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.dns.count(); n != MaxRules {
		t.Errorf("%d lookups", n)
	}
	if p := w.gate.pinned(hosts[7]); p == nil || len(p.addrs) != maxAddrs {
		t.Errorf("pinned %+v", p)
	}
}

func TestPolicyChanges(t *testing.T) {
	w := newWorld(t, nil)
	w.peer("a.example.com", public, 5432, echo)
	w.peer("example.org", netip.MustParseAddr("203.0.113.11"), 5432, echo)
	narrow, wide := policyOf(t, "example.org"), policyOf(t, "*.example.com", "example.org")

	cut, kept := w.connect("a.example.com", 5432), w.connect("example.org", 5432)
	for _, c := range []net.Conn{cut, kept} {
		write(t, c, "x")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	w.gate.SetPolicy(narrow)
	if got, err := readAll(t, cut); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %q, %v", got, err)
	}
	w.denied("a.example.com", PolicyChanged)
	write(t, kept, "y")
	if _, err := io.ReadFull(kept, make([]byte, 1)); err != nil {
		t.Errorf("the other connection: %v", err)
	}
	w.refused("a.example.com", 5432, NoMatch)
	w.gate.SetPolicy(wide)
	w.connect("a.example.com", 5432)

	private := netip.MustParseAddr("10.0.0.7")
	open := policyOf(t, "10.0.0.0/8", "db.example.com")
	open.Private = true
	w.gate.SetPolicy(open)
	w.peer("db.example.com", private, 5432, echo)
	named, literal := w.connect("db.example.com", 5432), w.connect("10.0.0.7", 5432)
	open.Private = false
	w.gate.SetPolicy(open)
	for _, c := range []net.Conn{named, literal} {
		if got, err := readAll(t, c); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read %q, %v", got, err)
		}
	}
	w.refused("db.example.com", 5432, PrivateAddress)
}

// A policy that becomes narrower while a name is resolved or dialled applies to that connection,
// too.
func TestPolicyChangesEarly(t *testing.T) {
	dialling := make(chan struct{})
	w := newWorld(t, func(o *Options) {
		o.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			close(dialling)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	w.dns.set("a.example.com", []netip.Addr{public})
	go func() {
		<-dialling
		w.gate.SetPolicy(policyOf(t, "example.org"))
	}()
	w.refused("a.example.com", 5432, PolicyChanged)
}

// The end of a relay ends its connections; the gate continues with the next relay.
func TestRelayEnds(t *testing.T) {
	w := newWorld(t, nil)
	gone := make(chan struct{}, 2)
	w.peer("a.example.com", public, 5432, func(c net.Conn) { _, _ = io.ReadAll(c); gone <- struct{}{} })
	allowed := func(n int) func() bool { return func() bool { return w.gate.Report().Allowed == n } }
	c := w.connect("a.example.com", 5432)
	w.wait("the first connection", allowed(1))
	_ = w.guest.Close()
	if err := <-w.ended; !errors.Is(err, io.EOF) {
		t.Errorf("Serve returned %v", err)
	}
	if _, err := readAll(t, c); err == nil {
		t.Error("the connection ended as if complete")
	}
	<-gone
	w.guest = newGuest()
	w.serve()
	w.connect("a.example.com", 5432)
	w.wait("the second connection", allowed(2))
	if n := w.dns.count(); n != 1 {
		t.Errorf("%d lookups: the pin was lost", n)
	}
	if r := w.gate.Report(); r.Denied != 0 {
		t.Errorf("report %+v", r)
	}
}

// Requests that no honest agent sends consume no lasting resources of the host, and change no
// decision.
func TestForgedAsks(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Connections = 8 })
	w.peer("a.example.com", public, 5432, echo)
	megabyte := strings.Repeat("a", 1<<20)
	for _, ask := range []wire.Ask{
		{},
		{ID: 1 << 31},
		{ID: 1<<64 - 1, Name: megabyte},
		{ID: 7, Name: megabyte + ".example.com"},
		{ID: 7, Open: &wire.Open{}},
		{ID: 7, Open: &wire.Open{Host: megabyte, Port: 5432}},
		{ID: 7, Open: &wire.Open{Host: "a.example.com", Port: 0}},
		{ID: 7, Open: &wire.Open{Host: "a.example.com", Port: 65535, Via: "nonsense"}},
		{ID: 7, Name: "a.example.com", Open: &wire.Open{Host: "127.0.0.1", Port: 5432}},
		{ID: 7, Open: &wire.Open{Host: "a.example.com", Port: 5432}}, // the agent does not know of this connection
		{ID: 7, Open: &wire.Open{Host: "a.example.com", Port: 5432}},
		{ID: 7, Name: "\xff\xfe"},
	} {
		if !w.guest.ask(ask) {
			t.Fatal("the relay ended")
		}
	}
	c := w.connect("a.example.com", 5432) // afterwards, connections still work
	id := w.guest.id
	write(t, c, "x")
	for range 3 { // it reuses its id
		w.guest.ask(wire.Ask{ID: id, Open: &wire.Open{Host: "a.example.com", Port: 5432}})
	}
	c.Close()
	w.guest.ask(wire.Ask{ID: id, Open: &wire.Open{Host: "a.example.com", Port: 5432}})
	w.wait("the connections to end", func() bool { w.gate.mu.Lock(); defer w.gate.mu.Unlock(); return len(w.gate.live) == 0 })
	for i := range 5000 {
		w.guest.ask(wire.Ask{ID: uint64(1<<31 + i), Open: &wire.Open{Host: "n" + strings.Repeat("x", i%200) + ".evil.org", Port: uint16(i)}})
	}
	w.wait("all asks to be counted", func() bool { return w.gate.Report().Denied >= 5000 })
	if got := len(w.records()); got > maxHosts+maxRecorded {
		t.Errorf("%d recorded", got)
	}
	report := w.gate.Report()
	if len(report.Hosts) > maxHosts {
		t.Errorf("%d hosts", len(report.Hosts))
	}
	for _, h := range report.Hosts {
		if len(h.Host) > maxName+4 || strings.ContainsFunc(h.Host, func(r rune) bool { return r < ' ' }) {
			t.Errorf("host %.300q", h.Host)
		}
	}
	for _, at := range w.dials() {
		if at != netip.AddrPortFrom(public, 5432) {
			t.Errorf("dialled %s", at)
		}
	}
}

// An agent that does not read its answers delays only its own requests, and nothing outlives the
// relay.
func TestAnswersUnread(t *testing.T) {
	w := newWorld(t, nil)
	g := &mute{guest: newGuest(), blocked: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.gate.Serve(ctx, g, g.accept) }()
	g.ask(wire.Ask{ID: 1, Name: "evil.org"})
	<-g.blocked
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("Serve returned without an error")
		}
	case <-time.After(patience):
		t.Fatal("Serve did not return")
	}
}

// mute accepts no answer until it is closed.
type mute struct {
	*guest
	blocked chan struct{}
}

func (m *mute) Answer(wire.Answer) error {
	m.blocked <- struct{}{}
	<-m.closed
	return io.ErrClosedPipe
}
