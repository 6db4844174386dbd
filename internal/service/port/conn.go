package port

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/event"
)

// touchEvery is how often traffic of a connection counts as a use of its session.
const touchEvery = time.Second

// conn is a connection to a port. Traffic keeps its session alive; an idle connection does not.
type conn struct {
	*agent.Conn
	all     *Ports
	session Session
	key     key
	caller  belljar.Caller

	bytes   atomic.Int64
	touched atomic.Int64 // Unix nanoseconds
	once    sync.Once
	unhook  func() bool
}

var (
	_ belljar.PortConn = (*conn)(nil)
	_ net.Conn         = (*conn)(nil)
)

// count counts n bytes.
func (c *conn) count(n int) {
	if n <= 0 {
		return
	}
	c.bytes.Add(int64(n))
	now := c.all.opts.Now().UnixNano()
	if last := c.touched.Load(); now-last >= int64(touchEvery) && c.touched.CompareAndSwap(last, now) {
		c.session.Touch()
	}
}

// Read reads what the program sends.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.count(n)
	return n, c.explain(err)
}

// Write sends to the program.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.count(n)
	return n, c.explain(err)
}

// WriteTo implements [io.WriterTo]. It holds no buffer while it waits.
func (c *conn) WriteTo(w io.Writer) (int64, error) {
	n, err := c.Conn.WriteTo(counter{w, c})
	if err == nil {
		err = io.EOF
	}
	if err = c.explain(err); errors.Is(err, io.EOF) {
		return n, nil
	}
	return n, err
}

// ReadFrom implements [io.ReaderFrom], counted as Write is.
func (c *conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{c}, r) }

// counter counts what is written.
type counter struct {
	io.Writer
	c *conn
}

func (w counter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.c.count(n)
	return n, err
}

// explain returns the reason of an error that the end of the session caused. It also replaces end of file: a killed program
// closes its connections, and its data must not look complete.
func (c *conn) explain(err error) error {
	if err == nil || c.session.Context().Err() == nil {
		return err
	}
	return c.all.opts.Ended(c.session.Context(), c.session.Session())
}

// Close delivers the written bytes and ends the connection.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// Abort resets the connection.
func (c *conn) Abort() error {
	err := c.Conn.Abort()
	c.leave()
	return err
}

func (c *conn) leave() {
	c.once.Do(func() {
		c.unhook()
		c.all.closed(c)
	})
}

// key identifies a port of a session.
type key struct {
	session string
	port    int
}

// tally counts the connections to one port since it last had none: the open ones and all of them.
type tally struct {
	open, conns int
	bytes       int64
	begun       time.Time
}

// table counts connections. The zero value is empty.
type table struct {
	mu      sync.Mutex
	session map[string]int // open connections
	ports   map[key]*tally
}

// enter counts a connection, if its session may have one more.
func (t *table) enter(c *conn, most int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session == nil {
		t.session, t.ports = map[string]int{}, map[key]*tally{}
	}
	if used := t.session[c.key.session]; used >= most {
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("the session has %d of at most %d connections", used, most),
			Details: map[string]any{"quota": "port_connections", "used": used, "limit": most, "session_id": c.key.session},
			Hint:    "close some of them",
		}
	}
	t.session[c.key.session]++
	return nil
}

// leave removes a connection from the count.
func (t *table) leave(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session[c.key.session]--; t.session[c.key.session] == 0 {
		delete(t.session, c.key.session)
	}
}

// opened counts a new connection. Only the first of concurrent connections has an event in the audit trail.
func (p *Ports) opened(c *conn) {
	p.table.mu.Lock()
	n := p.table.ports[c.key]
	first := n == nil
	if first {
		n = &tally{begun: p.opts.Now()}
		p.table.ports[c.key] = n
	}
	n.open++
	n.conns++
	p.table.mu.Unlock()
	if first {
		p.record(event.PortOpened, c, nil)
	}
}

// closed ends a connection's count. Only the last of concurrent connections has an event in the audit trail.
func (p *Ports) closed(c *conn) {
	p.table.leave(c)
	p.table.mu.Lock()
	n := p.table.ports[c.key]
	n.bytes += c.bytes.Load()
	n.open--
	last := n.open == 0
	if last {
		delete(p.table.ports, c.key)
	}
	p.table.mu.Unlock()
	if last {
		p.record(event.PortClosed, c, n)
	}
}

func (p *Ports) record(name string, c *conn, n *tally) {
	state := c.session.Session()
	e := event.Event{Name: name, Caller: c.caller, Session: &state, Runtime: state.Runtime, Kind: strconv.Itoa(c.key.port)}
	e.Detail = map[string]string{"port": e.Kind}
	if n != nil {
		e.Count, e.Took = n.bytes, p.opts.Now().Sub(n.begun)
		e.Detail["connections"] = strconv.Itoa(n.conns)
	}
	p.opts.Record(e)
}
