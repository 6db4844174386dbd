package egress

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Guest is the relay of one sandbox's agent.
type Guest interface {
	Next() (wire.Ask, error)
	Answer(wire.Answer) error
	Close() error // ends Next and Answer
}

// Dialer opens the stream of a connection that the agent holds.
type Dialer func(ctx context.Context, conn uint64) (Stream, error)

// Stream is a connection of a program. CloseWrite ends the direction to the program; Close without CloseWrite resets the
// connection. Read returns io.EOF only if the program has ended its side.
type Stream interface {
	net.Conn
	CloseWrite() error
}

// Resolver finds the addresses of a name. The gate requests absolute names, with a final dot, so that no search list applies.
// [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Limits bound a sandbox. A zero field has its default.
type Limits struct {
	Connections int   // open at the same time: [wire.MuxCarried], for which every runtime has streams
	Names       int   // used by programs: 256
	NewNames    int   // names under wildcards to resolve, per second: 10
	Bytes       int64 // in each direction: [UsualBytes]
}

// UsualBytes is how much a sandbox may send, and how much it may receive.
const UsualBytes = 1 << 30

func (l Limits) withDefaults() Limits {
	l.Connections = cmp.Or(l.Connections, wire.MuxCarried)
	l.Names = cmp.Or(l.Names, 256)
	l.NewNames = cmp.Or(l.NewNames, 10)
	l.Bytes = cmp.Or(l.Bytes, UsualBytes)
	return l
}

// Options configure a [Gate]. Only Policy has no default.
type Options struct {
	Policy   Policy
	Resolver Resolver
	Dial     func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	Limits   Limits
	Places   *Places // limits the connections of several gates together; nil does not
	User     string  // owner of the sandbox, for Places
	Broker   *Broker // nil if the sandbox has no brokered secrets
	// Record gets the first allowed connection of each host and rule, and the first denial of each host and reason, at most 1,000 and
	// 100 between two calls of Pin. For allowed hosts beyond the first 512 it gets every connection. Count gets each denial, and each
	// allowed connection when it ends, with its bytes. Both must be quick, and must not call the gate.
	Record func(Event)
	Count  func(Event)
	Now    func() time.Time
	Own    func() ([]netip.Addr, error) // the host's addresses
}

// Gate is the egress of one sandbox: its policy, pinned names, limits and counters. It outlives its relays.
type Gate struct {
	opts  Options
	waits waits
	*tally

	mu     sync.Mutex
	policy Policy
	pins   map[string]*pin
	used   map[string]struct{} // names that programs have used
	below  map[string]int      // number of used names by the wildcard that covers them
	fresh  bucket              // limits new names
	live   map[*conn]struct{}
	own    []netip.Addr
	ownAt  time.Time

	resolving chan struct{} // has a token for each request that waits for a lookup
	in, out   atomic.Int64
	decoded   atomic.Int64 // decoded bytes of encoded responses from hosts with brokered secrets
}

// NewGate returns a gate.
func NewGate(opts Options) *Gate {
	opts.Limits = opts.Limits.withDefaults()
	if opts.Resolver == nil {
		opts.Resolver = net.DefaultResolver
	}
	if opts.Dial == nil {
		opts.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr.String())
		}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Own == nil {
		opts.Own = ownAddresses
	}
	return &Gate{
		opts: opts, waits: usual, policy: opts.Policy, pins: map[string]*pin{}, used: map[string]struct{}{}, below: map[string]int{}, live: map[*conn]struct{}{},
		tally:     newTally(opts.Record, opts.Count),
		resolving: make(chan struct{}, wire.MaxAsked),
	}
}

// Serve answers the requests of a relay until the relay ends or ctx is done. It closes the relay and its connections, and returns
// when they have ended.
func (g *Gate) Serve(ctx context.Context, guest Guest, dial Dialer) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{gate: g, guest: guest, dial: dial, ctx: ctx}
	stop := context.AfterFunc(ctx, func() { _ = guest.Close() })
	defer func() {
		cancel()
		if stop() {
			_ = guest.Close()
		}
		s.wait.Wait()
	}()
	for {
		ask, err := guest.Next()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := s.handle(ask); err != nil {
			return err
		}
	}
}

// session is one relay.
type session struct {
	gate  *Gate
	guest Guest
	dial  Dialer
	ctx   context.Context
	wait  sync.WaitGroup
}

// handle answers a request, or starts the work that will. The limits bound the waiting requests; an agent that reads no answers
// delays only its own requests.
func (s *session) handle(ask wire.Ask) error {
	if ask.Open != nil {
		return s.open(ask.ID, *ask.Open)
	}
	g := s.gate
	host, reason := g.nameAllowed(ask.Name)
	if reason != "" {
		g.deny(Event{Host: ask.Name, Reason: reason})
		return s.deny(ask.ID, reason)
	}
	if p := g.pinned(host); p != nil {
		return s.tell(ask.ID, host, p)
	}
	select {
	case g.resolving <- struct{}{}:
	default:
		g.deny(Event{Host: host, Reason: Limit})
		return s.deny(ask.ID, Limit)
	}
	s.wait.Go(func() {
		defer func() { <-g.resolving }()
		_ = s.tell(ask.ID, host, g.lookup(s.ctx, host)) // Next fails, too, once the relay is gone
	})
	return nil
}

// deny answers a request.
func (s *session) deny(id uint64, reason Reason) error {
	return s.guest.Answer(wire.Answer{ID: id, Reason: string(reason)})
}

// tell answers whether the policy lets any address of a name be dialled.
func (s *session) tell(id uint64, host string, p *pin) error {
	reason := p.reason()
	if reason == "" && len(s.gate.admitted(host, p.addrs)) == 0 {
		reason = PrivateAddress
	}
	if reason != "" {
		s.gate.deny(Event{Host: host, Reason: reason})
	}
	return s.guest.Answer(wire.Answer{ID: id, OK: reason == "", Reason: string(reason), Missing: p.missing})
}

// nameAllowed decides about a name on any port.
func (g *Gate) nameAllowed(name string) (host string, reason Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.policy.match(name)
	if v.ip.IsValid() {
		return v.host, NoMatch // an address needs no lookup
	}
	if v.reason == "" {
		v.reason = g.use(v)
	}
	return v.host, v.reason
}

// admitted returns the addresses of a host that the policy currently admits.
func (g *Gate) admitted(host string, addrs []netip.Addr) []netip.Addr {
	own, err := g.ownNow()
	if err != nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []netip.Addr
	for _, ip := range addrs {
		if g.policy.admits(host, ip, own) {
			list = append(list, ip)
		}
	}
	return list
}

// SetPolicy replaces the policy with a narrower or wider one. It cuts connections that no longer match.
func (g *Gate) SetPolicy(p Policy) {
	own, err := g.ownNow()
	g.mu.Lock()
	g.policy = p
	var cut []*conn
	for c := range g.live {
		if _, reason := p.Decide(c.host, c.port); reason != "" || err != nil || c.addr.IsValid() && !p.admits(c.host, c.addr.Addr(), own) {
			cut = append(cut, c)
		}
	}
	g.mu.Unlock()
	for _, c := range cut {
		c.cut(PolicyChanged)
	}
}

// ownEvery is how long the list of the host's addresses is reused.
const ownEvery = 5 * time.Second

func (g *Gate) ownNow() ([]netip.Addr, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opts.Now()
	if g.own != nil && now.Sub(g.ownAt) < ownEvery {
		return g.own, nil
	}
	own, err := g.opts.Own()
	if err != nil {
		return nil, err
	}
	g.own, g.ownAt = append([]netip.Addr{}, own...), now
	return g.own, nil
}

func ownAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, ip.Unmap())
			}
		}
	}
	return own, nil
}
