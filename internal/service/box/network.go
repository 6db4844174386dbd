package box

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
)

// Egress is the shared configuration of all sandboxes' networks.
type Egress struct {
	Resolver egress.Resolver // nil is the system's
	Dial     func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	Limits   egress.Limits
	CA       []byte             // additional certificates that side sandboxes trust, in PEM
	Count    func(egress.Event) // receives every denial, and every connection at its end; may be nil
}

// Roots returns the certificate authorities that a client outside a sandbox trusts: the system's, and the operator's own; nil is the system's.
func (e Egress) Roots() (*x509.CertPool, error) {
	if len(e.CA) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err == nil {
		roots.AppendCertsFromPEM(e.CA)
	}
	return roots, err
}

// Network connects a sandbox to the network: a gate and, while its policy permits anything, a relay to the agent. It uses no
// resources before the first policy. The zero value and nil permit nothing.
type Network struct {
	agent   *agent.Client
	with    Egress
	places  *egress.Places
	user    string
	log     *slog.Logger
	secrets *egress.Broker     // nil without brokered secrets
	other   func(egress.Event) // receives the events unless exactly one run watches

	setting sync.Mutex                  // held during a change
	gate    atomic.Pointer[egress.Gate] // nil before the first policy
	stop    context.CancelFunc
	kept    chan struct{}           // closed when the relay is no longer maintained; nil while there is none
	first   atomic.Pointer[opening] // nil once a relay has been open

	watching sync.Mutex
	watchers []*Watcher
}

// opening is the first attempt to open a relay.
type opening struct {
	done chan struct{}
	err  error // valid after done is closed
}

// EgressEvent converts a gate's event for the audit trail.
func EgressEvent(e egress.Event) event.Event {
	out := event.Event{Name: event.EgressDenied, Reason: string(e.Reason), Detail: map[string]string{"host": e.Host, "matched_rule": e.Rule}}
	if e.Allowed {
		out.Name = event.EgressAllowed
	}
	if e.IP.IsValid() {
		out.Detail["ip"] = e.IP.String()
	}
	return out
}

// Watcher receives the events of a sandbox's gate.
type Watcher struct {
	network *Network
	record  func(e egress.Event, alone bool)
	mark    egress.Mark
}

// network returns the network of a sandbox.
func (m *Maker) network(b *Box, o Order) *Network {
	n := &Network{agent: b.Agent, with: m.Egress, places: &m.places, user: o.Caller.ID, log: m.Log.With("sandbox_id", o.ID), other: o.Egress}
	if secrets := o.Placement.Broker; secrets != nil {
		n.secrets = secrets.Egress
	}
	return n
}

// Set replaces the policy; nil permits nothing. Connections that the new policy denies are cut before Set returns. A relay that
// cannot be opened is an error, and is retried in the background.
func (n *Network) Set(ctx context.Context, p *egress.Policy) error {
	n.Begin(p)
	err := n.Opened(ctx)
	if ctx.Err() == nil {
		n.first.Store(nil) // the caller gets this error: commands start nevertheless
	}
	return err
}

// Begin is Set without waiting for the relay: [Network.Opened] waits.
func (n *Network) Begin(p *egress.Policy) {
	n.setting.Lock()
	defer n.setting.Unlock()
	gate := n.gate.Load()
	if p == nil {
		if gate != nil {
			gate.SetPolicy(egress.Policy{})
		}
		n.close()
		return
	}
	if gate == nil {
		gate = egress.NewGate(egress.Options{
			Policy: *p, Resolver: n.with.Resolver, Dial: n.with.Dial, Limits: n.with.Limits, Record: n.record, Count: n.with.Count,
			Places: n.places, User: n.user, Broker: n.secrets,
		})
		n.gate.Store(gate)
	} else {
		gate.SetPolicy(*p)
	}
	if n.kept != nil {
		select {
		case <-n.kept: // the agent had no relay: this is another attempt
			n.close()
		default:
			return
		}
	}
	first := &opening{done: make(chan struct{})}
	n.first.Store(first)
	keeping, stop := context.WithCancel(context.Background())
	n.stop, n.kept = stop, make(chan struct{})
	go n.keep(keeping, gate, first, p.Ports, n.kept)
}

// Opened waits for the first attempt of [Network.Begin] to open the relay, and returns its error until an attempt succeeds. Every command starts
// after it.
func (n *Network) Opened(ctx context.Context) error {
	if n == nil {
		return nil
	}
	first := n.first.Load()
	if first == nil {
		return nil
	}
	select {
	case <-first.done:
		return first.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// The backoff between attempts to open a lost relay, and the timeout of one attempt.
const (
	relaySoon    = 10 * time.Millisecond
	relayLate    = 5 * time.Second
	relayTimeout = 30 * time.Second
)

// keep opens a relay, serves it, and reopens it when it is lost, until ctx is done or the sandbox is removed.
func (n *Network) keep(ctx context.Context, gate *egress.Gate, first *opening, ports []uint16, kept chan<- struct{}) {
	answer := sync.OnceFunc(func() { close(first.done) })
	defer answer() // after kept is closed: a caller that gets a final error may set a policy again at once
	defer close(kept)
	final := func(err error) bool {
		return ctx.Err() != nil || errors.Is(err, runtime.ErrGone) || errors.Is(err, errors.ErrUnsupported)
	}
	pause := relaySoon
	for tries := 0; ; tries++ {
		limited, cancel := context.WithTimeout(ctx, relayTimeout)
		relay, err := n.agent.Relay(limited, ports)
		cancel()
		if tries == 0 {
			first.err = unsupported(err)
		}
		if !final(err) {
			answer()
		}
		if err == nil {
			n.first.CompareAndSwap(first, nil)
			begun := time.Now()
			err = gate.Serve(ctx, relay, n.accept)
			n.log.Debug("relay of a sandbox is lost; opening it again", "err", err)
			if time.Since(begun) > relayLate {
				pause = relaySoon
			}
		}
		if final(err) {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, relayLate)
	}
}

// unsupported explains that an agent has no relay.
func unsupported(err error) error {
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "the sandbox's agent does not support network_policy " + belljar.NetworkAllowlist, Err: err,
		Details: map[string]any{"field": "network_policy"}, Hint: "make a new session: the agent of this one is of an older version",
	}
}

// accept opens the stream of a connection.
func (n *Network) accept(ctx context.Context, conn uint64) (egress.Stream, error) {
	c, err := n.agent.Accept(ctx, conn)
	if err != nil {
		return nil, err
	}
	return &carried{Conn: c}, nil
}

// carried is a connection in the form that a gate uses: Close without CloseWrite resets it.
type carried struct {
	*agent.Conn
	ended atomic.Bool
}

func (c *carried) CloseWrite() error {
	if err := c.Conn.CloseWrite(); err != nil {
		return err
	}
	c.ended.Store(true)
	return nil
}

func (c *carried) Close() error {
	if c.ended.Load() {
		return c.Conn.Close()
	}
	return c.Conn.Abort()
}

// Close closes the relay with all connections, and waits for them to end.
func (n *Network) Close() {
	if n == nil {
		return
	}
	n.setting.Lock()
	defer n.setting.Unlock()
	n.close()
}

func (n *Network) close() {
	if n.kept == nil {
		return
	}
	n.stop()
	<-n.kept
	n.kept = nil
	n.first.Store(nil)
}

// opened returns the gate, nil if there was never a policy.
func (n *Network) opened() *egress.Gate {
	if n == nil {
		return nil
	}
	return n.gate.Load()
}

// Pin resolves the hosts of the policy again. Call it when a run begins.
func (n *Network) Pin(ctx context.Context) error {
	if g := n.opened(); g != nil {
		return g.Pin(ctx)
	}
	return nil
}

// Bytes returns the bytes through the gate, in and out together.
func (n *Network) Bytes() int64 {
	if g := n.opened(); g != nil {
		return g.Bytes()
	}
	return 0
}

// Watch passes events to a run until it ends. alone reports that it is the only run.
func (n *Network) Watch(record func(e egress.Event, alone bool)) *Watcher {
	w := &Watcher{network: n, record: record}
	if n == nil {
		return w
	}
	if g := n.opened(); g != nil {
		w.mark = g.Mark()
	}
	n.watching.Lock()
	defer n.watching.Unlock()
	n.watchers = append(n.watchers, w)
	return w
}

// Report returns the gate's counts since the run began; nil if there was never a policy.
func (w *Watcher) Report() *belljar.EgressReport {
	g := w.network.opened()
	if g == nil {
		return nil
	}
	return new(g.Since(w.mark))
}

// ManyNames returns the wildcards under which the sandbox has used an unusual number of names since the run began.
func (w *Watcher) ManyNames() []egress.Names {
	if g := w.network.opened(); g != nil {
		return g.ManyNames(w.mark)
	}
	return nil
}

// End ends the watch.
func (w *Watcher) End() {
	n := w.network
	if n == nil {
		return
	}
	n.watching.Lock()
	defer n.watching.Unlock()
	for i, other := range n.watchers {
		if other == w {
			n.watchers = append(n.watchers[:i:i], n.watchers[i+1:]...)
			return
		}
	}
}

// record distributes an event of the gate.
func (n *Network) record(e egress.Event) {
	n.watching.Lock()
	watchers := n.watchers
	n.watching.Unlock()
	for _, w := range watchers {
		w.record(e, len(watchers) == 1)
	}
	if len(watchers) != 1 && n.other != nil {
		n.other(e)
	}
}
