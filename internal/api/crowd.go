package api

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// crowd keeps the number of a server's connections down, for descriptors are what sandboxes need too: when there are too
// many, the one that has been of no use for the longest is closed. Those with a request on them are left alone, and if all
// have one it is the newcomer who goes.
type crowd struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]*list.Element // nil while there is a request on it
	idle list.List                  // of net.Conn, the longest first
}

func newCrowd(most int) *crowd { return &crowd{most: most, open: map[net.Conn]*list.Element{}} }

// state follows a connection: it is an [http.Server]'s ConnState.
func (c *crowd) state(conn net.Conn, state http.ConnState) {
	if leaves := c.note(conn, state); leaves != nil {
		_ = leaves.Close() // its reader hears of it
	}
}

// note returns the connection that is to be closed, if any.
func (c *crowd) note(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.open[conn]; at != nil {
		c.idle.Remove(at)
	}
	switch state {
	case http.StateNew:
		var leaves net.Conn
		if len(c.open) >= c.most {
			oldest := c.idle.Front()
			if oldest == nil {
				return conn
			}
			leaves = c.idle.Remove(oldest).(net.Conn)
			delete(c.open, leaves)
		}
		c.open[conn] = c.idle.PushBack(conn)
		return leaves
	case http.StateIdle, http.StateActive:
		if _, ok := c.open[conn]; !ok {
			return nil // it is being closed
		}
		c.open[conn] = nil
		if state == http.StateIdle {
			c.open[conn] = c.idle.PushBack(conn)
		}
	default: // hijacked: the stream's own bounds hold; closed
		delete(c.open, conn)
	}
	return nil
}
