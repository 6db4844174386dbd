package api

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
)

// unsentBytes bounds what waits in the kernel for a client that does not read, as all sockets of the host share one limit
// (net.ipv4.tcp_mem). What is on its way to the client comes on top, so that a distant client still receives at full speed.
const unsentBytes = 64 << 10

// clientConn is a client's TCP connection. It embeds the type, not [net.Conn], so that the kernel can still send files itself.
type clientConn struct {
	*net.TCPConn
	late    atomic.Bool  // a write did not end by its deadline
	writing atomic.Int32 // writes in progress
}

func newClientConn(tcp *net.TCPConn) *clientConn {
	limitUnsent(tcp)
	return &clientConn{TCPConn: tcp}
}

// Write implements [net.Conn].
func (c *clientConn) Write(b []byte) (int, error) {
	c.writing.Add(1)
	n, err := c.TCPConn.Write(b)
	c.wrote(err)
	return n, err
}

// ReadFrom implements [io.ReaderFrom].
func (c *clientConn) ReadFrom(r io.Reader) (int64, error) {
	c.writing.Add(1)
	n, err := c.TCPConn.ReadFrom(r)
	c.wrote(err)
	return n, err
}

func (c *clientConn) wrote(err error) {
	c.writing.Add(-1)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.late.Store(true)
	}
}

// Close implements [net.Conn]. It resets the connection of a client that did not read in time: otherwise the kernel keeps what is unsent,
// and offers it for minutes. A close during a write is the end of that time for a WebSocket.
func (c *clientConn) Close() error {
	if c.late.Load() || c.writing.Load() > 0 {
		_ = c.SetLinger(0) // an error only costs memory
	}
	return c.TCPConn.Close()
}
