package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// patience limits every wait of a test.
const patience = 2 * time.Minute

// patient makes a gate wait as long: a busy machine must not look like a peer that does not answer.
var patient = waits{dial: patience, accept: patience, first: patience, head: patience, last: patience, silent: patience, pin: patience, name: patience, lookup: patience}

// untimed runs a test of reused connections. http.Transport does not reuse a connection whose response arrives while the request's
// writer has waited 50 ms for a processor. In a bubble, no time passes while the listeners of a world wait on the network.
func untimed(t *testing.T, test func(*testing.T)) { synctest.Test(t, test) }

// public is the default address of names.
var public = netip.MustParseAddr("203.0.113.10")

// resolver answers from the test's lists: one list of answers for each name, whose last answer repeats.
type resolver struct {
	mu      sync.Mutex
	answers map[string][][]netip.Addr
	asked   []string
	err     error
	wait    chan struct{} // if set, lookups wait for it or their context
}

func (r *resolver) set(name string, answers ...[]netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil {
		r.answers = map[string][][]netip.Addr{}
	}
	r.answers[name+"."] = answers
}

func (r *resolver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func (r *resolver) LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error) {
	r.mu.Lock()
	r.asked = append(r.asked, name)
	wait := r.wait
	r.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	list := r.answers[name]
	if len(list) == 0 || network != "ip" {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	if len(list) > 1 {
		r.answers[name] = list[1:]
	}
	return list[0], nil
}

// world is a gate between a sandbox and peers, all of them made by the test.
type world struct {
	t     testing.TB
	gate  *Gate
	guest *guest
	dns   *resolver
	ended chan error // Serve's result

	mu       sync.Mutex
	peers    map[netip.AddrPort]string // the real address of a peer
	dialled  []netip.AddrPort
	recorded []Event
	counted  []Event
	now      time.Time
}

// newWorld starts a gate. All names under *.example.com and example.org are allowed on some ports.
func newWorld(t testing.TB, change func(*Options)) *world {
	t.Helper()
	w := &world{t: t, guest: newGuest(), dns: &resolver{}, ended: make(chan error, 1), peers: map[netip.AddrPort]string{}, now: time.Now()}
	opts := Options{
		Policy:   policyOf(t, "*.example.com", "example.org"),
		Resolver: w.dns,
		Dial:     w.dial,
		Own:      func() ([]netip.Addr, error) { return nil, nil },
		Record:   func(e Event) { w.mu.Lock(); defer w.mu.Unlock(); w.recorded = append(w.recorded, e) },
		Count:    func(e Event) { w.mu.Lock(); defer w.mu.Unlock(); w.counted = append(w.counted, e) },
		Now:      func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now },
	}
	if change != nil {
		change(&opts)
	}
	w.gate = NewGate(opts)
	w.gate.waits = patient
	w.serve()
	return w
}

// policyOf returns a policy with these rules of a run.
func policyOf(t testing.TB, rules ...string) Policy {
	t.Helper()
	run, err := ParseList("rules", rules)
	if err != nil {
		t.Fatal(err)
	}
	return Policy{Run: run, Server: Any(), Ports: []uint16{80, 443, 5432}}
}

func (w *world) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	guest, ended := w.guest, w.ended
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- w.gate.Serve(ctx, guest, guest.accept)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (w *world) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, addr)
	peer, ok := w.peers[addr]
	w.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return new(net.Dialer).DialContext(ctx, "tcp", peer)
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) dials() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialled)
}

func (w *world) records() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.recorded)
}

// peer runs a program behind a name, at an address and port.
func (w *world) peer(name string, ip netip.Addr, port uint16, program func(net.Conn)) {
	w.t.Helper()
	w.listen(netip.AddrPortFrom(ip, port), program)
	w.dns.set(name, []netip.Addr{ip})
}

func (w *world) listen(at netip.AddrPort, program func(net.Conn)) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				program(c)
			})
		}
	})
	w.t.Cleanup(func() { l.Close(); running.Wait() })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peers[at] = l.Addr().String()
}

// connect opens a connection that must be allowed.
func (w *world) connect(host string, port uint16) *net.TCPConn {
	w.t.Helper()
	c, answer := w.guest.open(host, port)
	if c == nil {
		w.t.Fatalf("%s:%d was denied: %+v", host, port, answer)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// refused opens a connection that must be denied.
func (w *world) refused(host string, port uint16, reason Reason) {
	w.t.Helper()
	c, answer := w.guest.open(host, port)
	if c != nil {
		c.Close()
		w.t.Errorf("%.80q:%d was allowed; want %s", host, port, reason)
	} else if answer.Reason != string(reason) || answer.OK != (reason == Unreachable) {
		w.t.Errorf("%.80q:%d: %+v; want %s", host, port, answer, reason)
	}
}

// wait waits until a condition is true.
func (w *world) wait(what string, done func() bool) {
	w.t.Helper()
	for until := time.Now().Add(patience); !done(); {
		if time.Now().After(until) {
			w.t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// denied waits for the report to count a denial.
func (w *world) denied(host string, reason Reason) {
	w.t.Helper()
	w.wait(fmt.Sprintf("the denial of %s, %s", host, reason), func() bool {
		return slices.ContainsFunc(w.gate.Report().Hosts, func(h belljar.EgressHost) bool {
			return h.Host == host && h.Reason == string(reason) && h.Denied > 0
		})
	})
}

// guest is the agent's side of a relay, in memory.
type guest struct {
	asks   chan wire.Ask
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	id      uint64
	waiting map[uint64]chan wire.Answer
	streams map[uint64]chan *net.TCPConn
	strange []wire.Answer // answers to requests without a waiter
}

func newGuest() *guest {
	return &guest{asks: make(chan wire.Ask), closed: make(chan struct{}), waiting: map[uint64]chan wire.Answer{}, streams: map[uint64]chan *net.TCPConn{}}
}

func (g *guest) Next() (wire.Ask, error) {
	select {
	case ask := <-g.asks:
		return ask, nil
	case <-g.closed:
		return wire.Ask{}, io.EOF
	}
}

func (g *guest) Answer(a wire.Answer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.waiting[a.ID]; ok {
		delete(g.waiting, a.ID)
		c <- a
		return nil
	}
	g.strange = append(g.strange, a)
	return nil
}

func (g *guest) Close() error {
	g.once.Do(func() { close(g.closed) })
	return nil
}

// ask sends a request; false if the relay is gone.
func (g *guest) ask(a wire.Ask) bool {
	select {
	case g.asks <- a:
		return true
	case <-g.closed:
		return false
	}
}

func (g *guest) name(name string) wire.Answer {
	id, answer, _ := g.expect()
	if !g.ask(wire.Ask{ID: id, Name: name}) {
		return wire.Answer{ID: id, Reason: "closed"}
	}
	select {
	case a := <-answer:
		return a
	case <-time.After(patience):
		return wire.Answer{ID: id, Reason: "no answer"}
	}
}

func (g *guest) expect() (uint64, chan wire.Answer, chan *net.TCPConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.id++
	answer, stream := make(chan wire.Answer, 1), make(chan *net.TCPConn, 1)
	g.waiting[g.id], g.streams[g.id] = answer, stream
	return g.id, answer, stream
}

// open requests a connection, and returns the program's end of it or the answer that denies it.
func (g *guest) open(host string, port uint16) (*net.TCPConn, wire.Answer) {
	id, answer, stream := g.expect()
	if !g.ask(wire.Ask{ID: id, Open: &wire.Open{Host: host, Port: port}}) {
		return nil, wire.Answer{ID: id, Reason: "closed"}
	}
	select {
	case c := <-stream:
		return c, wire.Answer{}
	case a := <-answer:
		return nil, a
	case <-time.After(patience):
		return nil, wire.Answer{ID: id, Reason: "no answer"}
	}
}

// accept is the gate's Dialer.
func (g *guest) accept(_ context.Context, id uint64) (Stream, error) {
	g.mu.Lock()
	c := g.streams[id]
	delete(g.streams, id)
	g.mu.Unlock()
	if c == nil {
		return nil, errors.New("no such connection")
	}
	host, program, err := pair()
	if err != nil {
		return nil, err
	}
	c <- program
	return &stream{TCPConn: host}, nil
}

// stream is the host's end of a connection. As in the service, Close without CloseWrite resets it, and CloseWrite is a write, which
// fails after a deadline.
type stream struct {
	*net.TCPConn
	ended atomic.Bool
}

func (s *stream) CloseWrite() error {
	if _, err := s.Write(nil); err != nil {
		return err
	}
	s.ended.Store(true)
	return s.TCPConn.CloseWrite()
}

func (s *stream) Close() error {
	if !s.ended.Load() {
		_ = s.SetLinger(0)
	}
	return s.TCPConn.Close()
}

// pair returns the two ends of a connection. Unlike a pipe, they have half closes and resets.
func pair() (a, b *net.TCPConn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	for {
		accepted, err := l.Accept()
		if err != nil {
			dialled.Close()
			return nil, nil, err
		}
		if accepted.RemoteAddr().String() == dialled.LocalAddr().String() {
			return accepted.(*net.TCPConn), dialled.(*net.TCPConn), nil
		}
		accepted.Close()
	}
}

// echo sends back all that it reads.
func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// write writes the whole text, or fails the test.
func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// readAll reads to the end.
func readAll(t *testing.T, c net.Conn) (string, error) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(c)
	return string(b), err
}
