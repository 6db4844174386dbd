package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// lingerTime is how long a closed connection waits for the program to read the bytes written before.
const lingerTime = time.Minute

// Conn is a connection with a program in a sandbox. It works like a TCP connection: CloseWrite ends one direction, Close ends both
// after the bytes written so far, Abort resets it at the program, and a deadline loses no byte. An end without the program's EOF is
// [ErrDisconnected].
type Conn struct {
	s       *stream
	buffers *sync.Pool // of *[]byte, for frames

	mu      sync.Mutex // guards the fields below; orders writes
	err     error      // of writes: a frame may be incomplete
	shut    bool       // EOF was sent
	closing sync.Once
	closed  chan struct{}
}

func (c *Client) newConn(s *stream) *Conn {
	return &Conn{s: s, buffers: &c.buffers, closed: make(chan struct{})}
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.s.r.Data(p)
	if err != nil {
		return n, c.readFault(err)
	}
	return n, nil
}

// readFault explains an error of reading.
func (c *Conn) readFault(err error) error {
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.Is(err, wire.ErrOther):
		f, err := c.s.r.Read()
		if err == nil {
			_, err = asReply(f)
		}
		if err == nil {
			err = fmt.Errorf("%w: unexpected answer on a connection", ErrProtocol)
		}
		return c.s.fault(err)
	}
	return c.s.fault(err)
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		buf := c.buffer()
		n := copy((*buf)[wire.DataRoom:], p[done:])
		err := c.send((*buf)[:wire.DataRoom+n])
		c.buffers.Put(buf)
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// buffer returns a buffer with room for a frame.
func (c *Conn) buffer() *[]byte {
	if buf, ok := c.buffers.Get().(*[]byte); ok {
		return buf
	}
	return new(make([]byte, wire.DataRoom+wire.MaxData))
}

// send writes one frame of data.
func (c *Conn) send(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writable(); err != nil {
		return err
	}
	if err := c.s.w.DataInPlace(b); err != nil {
		c.err = c.writeFault(err)
		return c.err
	}
	return nil
}

func (c *Conn) writable() error {
	switch {
	case c.err != nil:
		return c.err
	case c.shut:
		return io.ErrClosedPipe
	}
	return nil
}

func (c *Conn) writeFault(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return c.s.fault(err)
}

// ReadFrom implements [io.ReaderFrom].
func (c *Conn) ReadFrom(r io.Reader) (total int64, err error) {
	buf := c.buffer()
	defer c.buffers.Put(buf)
	for {
		n, err := r.Read((*buf)[wire.DataRoom:])
		if n > 0 {
			if err := c.send((*buf)[:wire.DataRoom+n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// WriteTo implements [io.WriterTo]. It uses no buffer while it waits.
func (c *Conn) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if _, err := c.s.r.Await(); err != nil {
			if err = c.readFault(err); errors.Is(err, io.EOF) {
				err = nil
			}
			return total, err
		}
		n, err := c.forward(w)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}

// forward writes one frame to w.
func (c *Conn) forward(w io.Writer) (int, error) {
	buf := c.buffer()
	defer c.buffers.Put(buf)
	n, err := c.s.r.Data(*buf)
	if err != nil {
		return 0, c.readFault(err)
	}
	return w.Write((*buf)[:n])
}

// CloseWrite ends the direction to the program, which reads the end of file after the bytes written so far.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writable(); err != nil {
		return err
	}
	c.shut = true
	if err := c.s.w.EOF(); err != nil {
		c.err = c.writeFault(err)
		return c.err
	}
	return nil
}

// Close implements [net.Conn]. The program still gets all written bytes. It is idempotent.
func (c *Conn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		_ = c.s.conn.SetReadDeadline(time.Unix(1, 0))
		_ = c.s.conn.SetWriteDeadline(time.Now().Add(lingerTime))
		go func() { // the program may be slow to read
			_ = c.CloseWrite() // fails if the agent has ended
			c.s.conn.Close()
		}()
	})
	return nil
}

// Abort closes the connection without delivering pending bytes; the program sees a reset.
func (c *Conn) Abort() error {
	c.closing.Do(func() { close(c.closed) })
	c.s.conn.Close()
	return nil
}

// LocalAddr implements [net.Conn].
func (c *Conn) LocalAddr() net.Addr { return c.s.conn.LocalAddr() }

// RemoteAddr implements [net.Conn]. It returns the agent's address.
func (c *Conn) RemoteAddr() net.Addr { return c.s.conn.RemoteAddr() }

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error { return c.deadline(c.s.conn.SetReadDeadline, t) }

// SetWriteDeadline implements [net.Conn]. The connection cannot be written to after a deadline that has passed during a Write.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.deadline(c.s.conn.SetWriteDeadline, t) }

func (c *Conn) deadline(set func(time.Time) error, t time.Time) error {
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
		return set(t)
	}
}

var _ net.Conn = (*Conn)(nil)
