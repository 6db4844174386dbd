//go:build linux

// Package relay is the agent's part of a sandbox's network, out and in. The sandbox has only a loopback. The host carries
// everything that leaves it, and the agent asks the host for each name and for each connection. This package makes no decisions.
//
//	relay      the host's stream: questions and answers
//	name       names that have an address, and the listeners there
//	resolver   DNS: a name's address, or that there is none
//	front      HTTP CONNECT and SOCKS5, for IP addresses and for programs that use a proxy
//	conn       connections that wait or are carried
//
// Nothing listens before the first relay. After that the listeners stay: while there is no relay, names fail temporarily and
// connections are reset.
package relay

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/belljar/belljar/internal/agent/guest/confine"
	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Stream is a request's connection to the host.
type Stream struct {
	Read    func() (wire.Frame, error) // renews the lease
	R       *wire.Reader
	W       *wire.Writer
	Contact func()       // renews the lease
	Close   func() error // makes reads and writes fail
}

// Relay is an agent's relay. Safe for concurrent use.
type Relay struct {
	stop    chan struct{} // closed by Close
	room    chan struct{} // holds a token for each connection
	waiting chan struct{} // holds a token for each waiting query
	callers chan struct{} // holds a token for each connection of the resolver
	ups     sync.Pool     // of *[]byte, the buffers of either direction
	downs   sync.Pool
	all     sync.WaitGroup // goroutines

	mu        sync.Mutex // guards the fields below
	closed    bool
	link      *link // nil without a relay
	ports     []uint16
	listeners []io.Closer // nil before the first relay
	names     map[string]*name
	asked     map[string]*question // by name
	questions map[uint64]*question
	conns     map[uint64]*conn
	lastID    uint64

	prepared sync.Once
}

// link is the stream of a relay.
type link struct {
	w     *wire.Writer
	close func() error
}

// question is a question that waits for its answer. The fields after done are set when done is closed.
type question struct {
	name   string
	done   chan struct{}
	answer wire.Answer
	err    error // there is no answer, or the name is allowed but gets no address
}

// Limits of the resources that programs can make the agent hold.
const (
	maxPorts   = 64
	maxWaiting = 2 * wire.MaxAsked
	maxCallers = 32
)

// New returns a relay without a host.
func New() *Relay {
	return &Relay{
		stop: make(chan struct{}), room: make(chan struct{}, wire.MaxCarried), waiting: make(chan struct{}, maxWaiting),
		callers: make(chan struct{}, maxCallers), names: map[string]*name{}, asked: map[string]*question{},
		questions: map[uint64]*question{}, conns: map[uint64]*conn{},
	}
}

// Prepare makes the first relay open faster: most of the cost of a process's first listeners occurs once, whatever they listen
// on. No listener stays open. Only the first call has an effect.
func (r *Relay) Prepare() {
	r.prepared.Do(func() {
		ip := net.ParseIP(wire.ResolverAddr)
		if udp, err := confine.ListenUDP(ip, 0); err == nil {
			udp.Close()
		}
		if tcp, err := confine.ListenTCP(ip, 0); err == nil {
			tcp.Close()
		}
	})
}

// Serve makes the stream the relay, replacing an older one, until the stream ends.
func (r *Relay) Serve(s Stream, cfg wire.Relay) error {
	if len(cfg.Ports) > maxPorts || slices.Contains(cfg.Ports, 0) {
		return fault.Invalid("relay for the ports %v", cfg.Ports)
	}
	l := &link{w: s.W, close: s.Close}
	if err := r.connect(l, cfg.Ports); err != nil {
		return err
	}
	defer r.disconnect(l)
	for {
		f, err := s.Read()
		if err != nil {
			return err
		}
		var c wire.Control
		if f.Kind != wire.KindControl {
			return fault.Protocol("frame of kind %d on a relay", f.Kind)
		}
		if err := f.JSON(&c); err != nil {
			return err
		}
		if c.Answer == nil {
			return fault.Protocol("control without an answer on a relay")
		}
		r.answered(l, *c.Answer)
	}
}

// connect makes l the relay.
func (r *Relay) connect(l *link, ports []uint16) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return fault.ErrDisconnected
	}
	if r.listeners == nil {
		if err := r.listen(); err != nil {
			return err
		}
	}
	if old := r.link; old != nil {
		r.drop()
		old.close()
	}
	r.setPorts(ports)
	r.link = l
	// Programs can use the relay as soon as the host knows that it is open.
	return l.w.JSON(wire.KindReply, wire.Reply{Done: true})
}

// disconnect ends the relay, if it is still l.
func (r *Relay) disconnect(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == l {
		r.drop()
	}
}

// drop drops the link: pending requests fail, and connections are reset. The caller holds mu.
func (r *Relay) drop() {
	r.link = nil
	for id, q := range r.questions {
		r.settle(id, q, wire.Answer{}, errNoRelay)
	}
	for _, c := range r.conns {
		r.abort(c)
	}
	for _, n := range r.names {
		n.asked = never // another host may decide otherwise
	}
}

// errNoRelay means that there is no host to ask.
var errNoRelay = errors.New("no relay")

// answered handles the host's answer. An answer to an unknown question is late and ignored.
func (r *Relay) answered(l *link, a wire.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link != l {
		return
	}
	if q := r.questions[a.ID]; q != nil {
		var err error
		if a.OK {
			err = r.place(q.name)
		}
		r.settle(a.ID, q, a, err)
		return
	}
	if c := r.conns[a.ID]; c != nil && c.stream == nil {
		r.deny(c, a)
	}
}

// settle completes a question. The caller holds mu.
func (r *Relay) settle(id uint64, q *question, a wire.Answer, err error) {
	q.answer, q.err = a, err
	delete(r.questions, id)
	delete(r.asked, q.name)
	close(q.done)
}

// Close ends the relay and all connections, and returns when nothing is left. It is idempotent.
func (r *Relay) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stop)
		if r.link != nil {
			r.link.close()
		}
		r.drop()
		for _, l := range r.listeners {
			l.Close()
		}
		r.setPorts(nil)
	}
	r.mu.Unlock()
	r.all.Wait()
}

// take takes a token, and reports whether the relay is open.
func (r *Relay) take(tokens chan struct{}) bool {
	select {
	case tokens <- struct{}{}:
		return true
	case <-r.stop:
		return false
	}
}
