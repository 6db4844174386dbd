//go:build linux

package boxtest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// Link wraps the connections to an agent. The first one that sends a text becomes mute: its requests still arrive, and its answers do not.
type Link struct {
	Dial func(ctx context.Context) (net.Conn, error)
	// Drops makes the mute connection lose what it sends from the text on, too.
	Drops bool
	Text  string

	Muted chan struct{} // closed when a connection is mute
	used  atomic.Bool
	mute  *linked
}

// Connect is the Dial of the wrapped connections.
func (l *Link) Connect(ctx context.Context) (net.Conn, error) {
	c, err := l.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &linked{Conn: c, of: l, closed: make(chan struct{})}, nil
}

// Break breaks the mute connection.
func (l *Link) Break() {
	<-l.Muted
	_ = l.mute.Close()
}

type linked struct {
	net.Conn
	of     *Link
	mute   atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (c *linked) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(c.of.Text)) && c.of.used.CompareAndSwap(false, true) {
		c.mute.Store(true)
		c.of.mute = c
		defer close(c.of.Muted)
	}
	if c.mute.Load() && c.of.Drops {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *linked) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.mute.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *linked) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
