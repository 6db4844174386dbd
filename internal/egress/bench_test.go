package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// thousand returns a policy with the maximum number of rules, on both sides.
func thousand(t testing.TB) Policy {
	t.Helper()
	var e belljar.Egress
	for i := range 400 {
		e.Hosts = append(e.Hosts, fmt.Sprintf("host%d.example.com", i), fmt.Sprintf("*.zone%d.example.org", i))
	}
	for i := range 100 {
		e.CIDRs = append(e.CIDRs, fmt.Sprintf("203.%d.0.0/16", i))
		e.IPs = append(e.IPs, fmt.Sprintf("2001:db8::%x", i))
	}
	rules, err := ParseRules(e)
	if err != nil {
		t.Fatal(err)
	}
	return Policy{Run: rules, Server: rules, Ports: []uint16{80, 443}}
}

func asked() []string {
	return []string{
		"host399.example.com", "a.b.c.d.zone399.example.org", "203.99.1.2", "2001:db8::63", "evil.org",
		"Host7.Example.com.", "a.very.long.name.of.many.labels.that.no.rule.covers.example.net", "10.0.0.1",
	}
}

// BenchmarkDecide reports the figure of the budget: 20 µs for 99 of 100 decisions.
func BenchmarkDecide(b *testing.B) {
	p, hosts := thousand(b), asked()
	b.ReportAllocs()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		p.Decide(hosts[i%len(hosts)], 443)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// A decision allocates little memory: only the text of an address, or a name in lower case.
func TestDecideAllocates(t *testing.T) {
	p := thousand(t)
	for _, host := range asked() {
		if n := testing.AllocsPerRun(100, func() { p.Decide(host, 443) }); n > 2 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

// BenchmarkSplice compares a connection through the gate with a direct one, in turns.
func BenchmarkSplice(b *testing.B) {
	const size = 64 << 20
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.CopyN(c, zeros{}, size)
			}()
		}
	}()
	receive := func(c net.Conn) time.Duration {
		start := time.Now()
		if n, err := io.Copy(io.Discard, c); n != size || err != nil {
			b.Fatal(n, err)
		}
		c.Close()
		return time.Since(start)
	}
	dns := &resolver{}
	dns.set("a.example.com", []netip.Addr{public})
	g := NewGate(Options{Policy: policyOf(b, "a.example.com"), Resolver: dns, Own: noOwn, Limits: Limits{Bytes: 1 << 60},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			return net.Dial("tcp", listener.Addr().String())
		}})
	guest := newGuest()
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, guest, guest.accept) }()
	var direct, spliced time.Duration
	for b.Loop() {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		direct += receive(c)
		through, answer := guest.open("a.example.com", 5432)
		if through == nil {
			b.Fatal(answer)
		}
		spliced += receive(through)
	}
	cancel()
	<-served
	mb := float64(b.N) * size / 1e6
	b.ReportMetric(mb/direct.Seconds(), "direct-MB/s")
	b.ReportMetric(mb/spliced.Seconds(), "spliced-MB/s")
	b.ReportMetric(direct.Seconds()/spliced.Seconds(), "ratio")
}

// BenchmarkConnect compares the time until the first byte returns.
func BenchmarkConnect(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); echo(c) }()
		}
	}()
	dns := &resolver{}
	dns.set("a.example.com", []netip.Addr{public})
	g := NewGate(Options{Policy: policyOf(b, "a.example.com"), Resolver: dns, Own: noOwn,
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			return net.Dial("tcp", listener.Addr().String())
		}})
	guest := newGuest()
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, guest, guest.accept) }()
	trip := func(c net.Conn) {
		one := []byte{1}
		if _, err := c.Write(one); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, one); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
	var direct, gated []time.Duration
	for b.Loop() {
		start := time.Now()
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		trip(c)
		direct = append(direct, time.Since(start))
		start = time.Now()
		through, answer := guest.open("a.example.com", 5432)
		if through == nil {
			b.Fatal(answer)
		}
		trip(through)
		gated = append(gated, time.Since(start))
	}
	cancel()
	<-served
	slices.Sort(direct)
	slices.Sort(gated)
	b.ReportMetric(float64(direct[len(direct)/2].Microseconds()), "direct-p50-µs")
	b.ReportMetric(float64(gated[len(gated)/2].Microseconds()), "gated-p50-µs")
	b.ReportMetric(float64(gated[len(gated)*99/100].Microseconds()), "gated-p99-µs")
}
