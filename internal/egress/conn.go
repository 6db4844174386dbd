package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// waits are the maximum times that a gate waits for others.
type waits struct {
	dial   time.Duration // for all addresses of a name
	accept time.Duration // for the agent to accept
	first  time.Duration // for the first byte of a ClientHello: Git reads all authorities after it has connected
	head   time.Duration // for the rest of a ClientHello, or the head of a request
	last   time.Duration // for a program to read the reason of a denial
	silent time.Duration // for a host to send more of a response after the program has ended its side
	pin    time.Duration // for the names of a run
	name   time.Duration // for a name on its first use: programs wait for 5 s
	lookup time.Duration // for the resolver
}

// usual are the waits of a gate. Most tests use longer ones.
var usual = waits{
	dial: 10 * time.Second, accept: 10 * time.Second, first: 30 * time.Second, head: 10 * time.Second, last: 5 * time.Second,
	silent: 30 * time.Second, pin: 2 * time.Second, name: 4 * time.Second, lookup: 15 * time.Second,
}

// conn is a connection of a program, from the request to the end.
type conn struct {
	gate   *Gate
	host   string
	ip     netip.Addr // if the host is a literal address
	port   uint16
	rule   string
	ctx    context.Context
	cancel context.CancelCauseFunc

	addr    netip.AddrPort // the dialled address; gate.mu guards it
	row     *row           // counts its bytes
	allowed bool
	denied  sync.Once
	in, out atomic.Int64
}

// cause is the reason why the gate cut a connection.
type cause Reason

func (c cause) Error() string { return "egress: cut: " + string(c) }

// cut ends a connection. It records the cut first: the run may end because of it, and its record shows the reason.
func (c *conn) cut(reason Reason) {
	if c.ctx.Err() == nil {
		c.deny(reason)
	}
	c.cancel(cause(reason))
}

// deny records a denial of the connection, once.
func (c *conn) deny(reason Reason) { c.denied.Do(func() { c.gate.deny(c.event(reason)) }) }

// reasonFor returns the reason why the gate cut the connection, or otherwise if it did not.
func (c *conn) reasonFor(otherwise Reason) Reason {
	var why cause
	if errors.As(context.Cause(c.ctx), &why) {
		return Reason(why)
	}
	return otherwise
}

// event describes the connection.
func (c *conn) event(reason Reason) Event {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return Event{Host: c.host, IP: c.addr.Addr(), Port: c.port, Rule: c.rule, Reason: reason, BytesIn: c.in.Load(), BytesOut: c.out.Load()}
}

// allow counts a connection as allowed.
func (c *conn) allow(reason Reason) {
	e := c.event(reason)
	e.Allowed = true
	c.row, c.allowed = c.gate.allow(e), true
}

// open decides about a connection, and starts to carry it.
func (s *session) open(id uint64, o wire.Open) error {
	c, reason := s.admit(o)
	if reason != "" {
		s.gate.deny(Event{Host: o.Host, Port: o.Port, Reason: reason})
		return s.deny(id, reason)
	}
	s.wait.Go(func() {
		defer s.gate.drop(c)
		s.carry(id, c)
	})
	return nil
}

// admit decides about a connection and registers it, so that later changes of the policy apply to it.
func (s *session) admit(o wire.Open) (*conn, Reason) {
	g := s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.policy.decide(o.Host, o.Port)
	if v.reason != "" {
		return nil, v.reason
	}
	if len(g.live) >= g.opts.Limits.Connections || max(g.in.Load(), g.out.Load(), g.decoded.Load()) >= g.opts.Limits.Bytes {
		return nil, Limit
	}
	if !v.ip.IsValid() {
		if reason := g.use(v); reason != "" {
			return nil, reason
		}
		if !g.opts.Broker.takes(v.host, o.Port) {
			return nil, Brokered
		}
	}
	if !g.opts.Places.take(g.opts.User) {
		return nil, Limit
	}
	c := &conn{gate: g, host: v.host, ip: v.ip, port: o.Port, rule: v.rule, row: new(row)}
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	g.live[c] = struct{}{}
	return c, ""
}

// drop ends the rest of a connection.
func (g *Gate) drop(c *conn) {
	c.cancel(nil)
	g.opts.Places.release(g.opts.User)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.live, c)
}

// carry connects, and then carries the bytes until both sides have ended.
func (s *session) carry(id uint64, c *conn) {
	target, reason := c.connect()
	if target != nil {
		defer target.Close()
	}
	if s.ctx.Err() != nil {
		return // the relay is gone
	}
	switch reason = c.reasonFor(reason); reason {
	case "":
	case Unreachable:
		c.allow(Unreachable)
		_ = s.guest.Answer(wire.Answer{ID: id, OK: true, Reason: string(Unreachable)})
		c.ended()
		return
	default:
		c.deny(reason)
		_ = s.deny(id, reason)
		return
	}
	stream, err := s.accept(c, id)
	if err != nil { // the program, the agent or the relay may be gone, but the host has seen the connection
		c.allow("")
		c.ended()
		reason := c.reasonFor(Unreachable)
		_ = s.guest.Answer(wire.Answer{ID: id, OK: reason == Unreachable, Reason: string(reason)}) // else the program would wait forever
		return
	}
	defer stream.Close()
	defer context.AfterFunc(c.ctx, func() { reset(stream) })()

	if reason := c.talk(stream, target); reason != "" {
		c.deny(reason)
	}
	c.ended()
}

// ended counts the end of an allowed connection.
func (c *conn) ended() {
	if c.allowed && c.gate.count != nil {
		e := c.event("")
		e.Allowed = true
		c.gate.count(e)
	}
}

func (s *session) accept(c *conn, id uint64) (Stream, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.gate.waits.accept)
	defer cancel()
	return s.dial(ctx, id)
}

// talk carries the bytes of a connection after checking that they are for the host. It returns the reason if they are not.
func (c *conn) talk(stream Stream, target net.Conn) Reason {
	switch {
	case c.ip.IsValid(): // an address has no name to compare with
	case c.port == 443:
		return c.carryTLS(stream, target)
	case c.port == 80:
		return c.carryHTTP(stream, target)
	}
	c.allow("")
	c.splice(stream, target)
	return ""
}

// connect dials the host.
func (c *conn) connect() (net.Conn, Reason) {
	target, reason, _ := c.gate.reach(c.ctx, c.host, c.ip, c.port, c.setAddress)
	if target == nil {
		return nil, reason
	}
	return c.meter(target), ""
}

// setAddress records the address that is or was dialled, if the policy admits it.
func (c *conn) setAddress(addr netip.AddrPort) bool {
	g := c.gate
	own, err := g.ownNow()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil || !g.policy.admits(c.host, addr.Addr(), own) {
		return false
	}
	c.addr = addr
	return true
}

// splice copies both ways until both sides have ended, or one has failed.
func (c *conn) splice(stream Stream, target net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.copy(stream, target)
	}()
	c.copy(target, stream)
	<-done
}

const (
	leastBuffer = 4 << 10
	mostBuffer  = 32 << 10
)

// copy copies until src ends, and then ends dst. A failure ends the connection both ways. The buffer grows with the traffic, so
// that an idle connection uses little memory.
func (c *conn) copy(dst, src net.Conn) {
	buf := make([]byte, leastBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				c.cancel(nil)
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) || closeWrite(dst) != nil {
				c.cancel(nil)
			}
			return
		}
		if n == len(buf) && n < mostBuffer {
			buf = make([]byte, 2*n)
		}
	}
}

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// reset closes a connection with a reset, so that the other side detects the failure.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

var errCut = errors.New("egress: the connection is cut")

// metered counts the bytes to and from a host, and cuts the connection when the sandbox has used up its limit.
type metered struct {
	net.Conn
	c    *conn
	stop func() bool
}

// meter returns target with counting. The connection ends with c.
func (c *conn) meter(target net.Conn) *metered {
	return &metered{target, c, context.AfterFunc(c.ctx, func() { reset(target) })}
}

// Close ends one of several successive connections of c, and releases its callback.
func (m *metered) Close() error {
	m.stop()
	return m.Conn.Close()
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.c.in.Add(int64(n))
	m.c.row.in.Add(int64(n))
	if !m.c.spend(&m.c.gate.in, n) {
		return 0, errCut
	}
	return n, err
}

func (m *metered) Write(p []byte) (int, error) {
	if !m.c.spend(&m.c.gate.out, len(p)) {
		return 0, errCut
	}
	n, err := m.Conn.Write(p)
	m.c.out.Add(int64(n))
	m.c.row.out.Add(int64(n))
	return n, err
}

// spend counts bytes of the sandbox. It reports whether they may pass; after the connection is cut, none may.
func (c *conn) spend(total *atomic.Int64, n int) bool {
	if c.ctx.Err() != nil {
		return false
	}
	if total.Add(int64(n)) <= c.gate.opts.Limits.Bytes {
		return true
	}
	c.cut(Limit)
	return false
}

// CloseWrite ends the direction to the host.
func (m *metered) CloseWrite() error { return closeWrite(m.Conn) }
