//go:build linux

package relay

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// conn is a program's connection, which holds a token of [Relay.room].
type conn struct {
	id  uint64
	tcp *net.TCPConn
	// stream is nil while the connection waits for the host. The relay's mu guards it.
	stream *Stream
	// For a connection through the front: the answer to the program when the connection is carried, the data that the program has
	// already sent, and the answer if the connection is not carried. Without refuse it is reset.
	granted []byte
	early   []byte
	refuse  func(wire.Answer) []byte
}

// Sizes of buffers. A connection has at most one buffer for each direction, and none while it is idle. The buffer to the program
// has room for a frame; a smaller one would take more system calls.
const (
	upBuffer   = 32 << 10
	downBuffer = wire.MaxData
)

// lingerTime is how long a program may take to close a connection after the host or the relay has closed it.
const lingerTime = 5 * time.Second

// acceptAll passes a listener's connections to handle until the listener is closed.
func (r *Relay) acceptAll(l *net.TCPListener, handle func(*net.TCPConn)) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !r.pause() {
				return
			}
			continue // out of descriptors or memory, or the program has gone already
		}
		if !r.take(r.room) {
			c.Close()
			return
		}
		handle(c)
	}
}

// pause waits briefly; false if the relay is closed.
func (r *Relay) pause() bool {
	select {
	case <-time.After(10 * time.Millisecond):
		return true
	case <-r.stop:
		return false
	}
}

// open requests a connection from the host.
func (r *Relay) open(c *conn, to wire.Open) {
	r.mu.Lock()
	l := r.link
	if l == nil {
		r.mu.Unlock()
		r.end(c, wire.Answer{OK: true, Reason: "the sandbox has no connection to its host now"})
		return
	}
	r.lastID++
	c.id = r.lastID
	r.conns[c.id] = c
	r.mu.Unlock()
	l.ask(wire.Ask{ID: c.id, Open: &to})
}

// deny ends a waiting connection. The caller holds mu.
func (r *Relay) deny(c *conn, a wire.Answer) {
	delete(r.conns, c.id)
	r.all.Go(func() { r.end(c, a) }) // the program may be slow
}

// abort resets a connection, because its relay has ended. The caller holds mu.
func (r *Relay) abort(c *conn) {
	if c.stream != nil {
		c.stream.Close()
		return
	}
	r.deny(c, wire.Answer{OK: true, Reason: "the sandbox has lost its host"})
}

// end ends a connection that is not carried.
func (r *Relay) end(c *conn, a wire.Answer) {
	defer r.release()
	if c.refuse == nil {
		reset(c.tcp)
		return
	}
	closeWith(c.tcp, c.refuse(a))
}

func (r *Relay) release() { <-r.room }

// reset closes a connection so that the program sees it.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // else it is closed normally
	c.Close()
}

// closeWith sends a program the reason why its connection ends, and closes it. It first reads the program's remaining data, which
// would otherwise cause a reset.
func closeWith(c *net.TCPConn, text []byte) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(lingerTime))
	if _, err := c.Write(text); err != nil {
		return
	}
	if c.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, 64<<10)
	}
}

// Accept carries a connection over the stream, until both have ended.
func (r *Relay) Accept(s Stream, id uint64) error {
	r.mu.Lock()
	c := r.conns[id]
	if c == nil || c.stream != nil {
		r.mu.Unlock()
		return fault.New(wire.CodeNotFound, "no connection %d waits", id)
	}
	c.stream = &s
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.conns, id)
		r.mu.Unlock()
		r.release()
	}()
	if err := s.W.JSON(wire.KindReply, wire.Reply{Done: true}); err != nil {
		reset(c.tcp)
		return fault.ErrDisconnected
	}
	if len(c.granted) > 0 {
		if _, err := c.tcp.Write(c.granted); err != nil {
			reset(c.tcp)
			return fault.ErrDisconnected
		}
	}
	r.carry(c, s)
	return fault.ErrDisconnected // there is nothing more to send
}

// Connect carries a connection to a program that listens inside.
func (r *Relay) Connect(s Stream, port uint16) error {
	if port == 0 {
		return fault.Invalid("connect without a port")
	}
	tcp, err := net.DialTCP("tcp4", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	if errors.Is(err, unix.ECONNREFUSED) {
		tcp, err = net.DialTCP("tcp6", nil, &net.TCPAddr{IP: net.IPv6loopback, Port: int(port)})
	}
	if err != nil {
		return fault.New(wire.CodeNotFound, "no program listens on port %d", port)
	}
	if err := s.W.JSON(wire.KindReply, wire.Reply{Done: true}); err != nil {
		tcp.Close()
		return fault.ErrDisconnected
	}
	r.carry(&conn{tcp: tcp}, s)
	return fault.ErrDisconnected
}

// carry moves bytes both ways until both directions have ended, or either side is lost. If the host ends the stream before its
// EOF, the program's connection is reset. If the program resets its connection, the stream ends before its EOF.
func (r *Relay) carry(c *conn, s Stream) {
	var ended atomic.Int32 // number of directions
	up := make(chan struct{})
	go func() {
		defer close(up)
		if err := r.up(c, s.W); err != nil || ended.Add(1) == 2 {
			s.Close()
		}
	}()
	err := r.down(c, s)
	if err != nil {
		reset(c.tcp)
		<-up
		return
	}
	_ = c.tcp.CloseWrite() // the program may have closed it
	if ended.Add(1) == 2 {
		s.Close()
	} else {
		_, _ = s.R.Await() // the end of the stream
	}
	// Closing a connection with unread data would discard data that the program has not received yet.
	_ = c.tcp.SetReadDeadline(time.Now().Add(lingerTime))
	select {
	case <-up:
	case <-r.stop:
	}
	c.tcp.Close()
	<-up
}

// up moves bytes from the program to the host, until its end of file. It fails if the program's connection does. If the host no
// longer reads, up discards the bytes, because the host's answer may still be in transit.
func (r *Relay) up(c *conn, w *wire.Writer) error {
	if len(c.early) > 0 {
		if w.Data(c.early) != nil {
			return discard(c.tcp)
		}
		c.early = nil
	}
	raw, err := c.tcp.SyscallConn()
	if err != nil {
		return err
	}
	for {
		buf, n, err := r.read(raw)
		if err != nil {
			return err
		}
		if n == 0 {
			_ = w.EOF()
			return nil
		}
		err = w.DataInPlace((*buf)[:wire.DataRoom+n])
		r.ups.Put(buf)
		if err != nil {
			return discard(c.tcp)
		}
	}
}

func discard(c *net.TCPConn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// rawConn is a part of [syscall.RawConn].
type rawConn interface {
	Read(func(fd uintptr) bool) error
}

// read reads into a buffer, after the room for a head. It has no buffer while it waits. At the end of file it returns none.
func (r *Relay) read(raw rawConn) (buf *[]byte, n int, err error) {
	var fail error
	err = raw.Read(func(fd uintptr) bool {
		buf = buffer(&r.ups, wire.DataRoom+upBuffer)
		n, fail = unix.Read(int(fd), (*buf)[wire.DataRoom:])
		if n > 0 {
			return true
		}
		r.ups.Put(buf)
		buf = nil
		return fail != unix.EAGAIN && fail != unix.EINTR
	})
	if err == nil {
		err = fail
	}
	return buf, max(n, 0), err
}

// buffer returns a buffer of a pool.
func buffer(pool *sync.Pool, size int) *[]byte {
	if buf, ok := pool.Get().(*[]byte); ok {
		return buf
	}
	return new(make([]byte, size))
}

// down moves bytes from the host to the program, until the host's EOF.
func (r *Relay) down(c *conn, s Stream) error {
	for {
		if _, err := s.R.Await(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		s.Contact()
		buf := buffer(&r.downs, downBuffer)
		n, err := s.R.Data(*buf)
		if err == nil {
			_, err = c.tcp.Write((*buf)[:n])
		}
		r.downs.Put(buf)
		if err != nil {
			return err
		}
	}
}
