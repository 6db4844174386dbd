package api

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// connLimiter bounds the number of a server's connections, since sandboxes need descriptors too. At the limit a new
// connection closes the one that has been idle the longest. If none is idle, the new connection is closed.
type connLimiter struct {
	limit int

	mu   sync.Mutex
	open map[net.Conn]*list.Element // nil while a request is active
	idle list.List                  // of net.Conn, the longest idle first
}

func newConnLimiter(limit int) *connLimiter {
	return &connLimiter{limit: limit, open: map[net.Conn]*list.Element{}}
}

// state is the server's [http.Server.ConnState].
func (c *connLimiter) state(conn net.Conn, state http.ConnState) {
	if evicted := c.note(conn, state); evicted != nil {
		_ = evicted.Close() // its next read reports the error
	}
}

// note records the state of conn and returns the connection to close, if any.
func (c *connLimiter) note(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.open[conn]; at != nil {
		c.idle.Remove(at)
	}
	switch state {
	case http.StateNew:
		var evicted net.Conn
		if len(c.open) >= c.limit {
			oldest := c.idle.Front()
			if oldest == nil {
				return conn
			}
			evicted = c.idle.Remove(oldest).(net.Conn)
			delete(c.open, evicted)
		}
		c.open[conn] = c.idle.PushBack(conn)
		return evicted
	case http.StateIdle, http.StateActive:
		if _, ok := c.open[conn]; !ok {
			return nil // already evicted
		}
		c.open[conn] = nil
		if state == http.StateIdle {
			c.open[conn] = c.idle.PushBack(conn)
		}
	default: // closed, or hijacked: the stream has limits of its own
		delete(c.open, conn)
	}
	return nil
}
