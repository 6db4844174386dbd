package wire

import (
	"bytes"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// errClosed is the error of a closed multiplexer or stream.
var errClosed = net.ErrClosed

// muxStream is one stream of a multiplexer. All fields are guarded by the mux's mutex.
type muxStream struct {
	m    *mux
	id   uint32
	cond sync.Cond // signals a change of the fields below
	err  error     // set when the epoch has ended

	// Receiving.
	buffer bytes.Buffer // arrived and unread
	grant  int          // bytes that the peer may still send
	read   int          // bytes read and not yet granted again

	// Sending.
	open    bool   // the open frame has been sent, or came from the peer
	window  int    // bytes that we may still send
	out     []byte // the rest of the active Write
	writing bool
	queued  bool // in the mux's queue

	closed        bool // Close was called
	closeSent     bool
	closeReceived bool

	readBy, writeBy muxDeadline
}

func newMuxStream(m *mux, id uint32, open bool) *muxStream {
	s := &muxStream{m: m, id: id, open: open, grant: MuxWindow, window: MuxWindow}
	s.cond.L = &m.mu
	return s
}

// wantsToSend reports whether fill has a frame to send, apart from the byte stream's credit.
func (s *muxStream) wantsToSend() bool {
	switch {
	case s.closeSent:
		return false
	case !s.open, s.closed, s.closeReceived:
		return true
	}
	return s.wantsWindow() || len(s.out) > 0 && s.window > 0
}

func (s *muxStream) wantsWindow() bool { return s.read >= MuxWindow/2 }

// fill appends the stream's next frames, at most one data frame. blocked means that the byte stream has too little credit.
func (s *muxStream) fill(dst []byte) (_ []byte, blocked bool) {
	var ok bool
	if !s.open {
		if dst, ok = s.m.emit(dst, muxFrame{kind: muxOpen, stream: s.id}); !ok {
			return dst, true
		}
		s.open = true
	}
	if s.closed || s.closeReceived {
		if !s.closeSent {
			if dst, ok = s.m.emit(dst, muxFrame{kind: muxClose, stream: s.id}); !ok {
				return dst, true
			}
			s.closeSent = true
			if s.closeReceived {
				s.m.drop(s)
			}
		}
		return dst, false
	}
	if s.wantsWindow() {
		if dst, ok = s.m.emit(dst, muxFrame{kind: muxWindow, stream: s.id, body: number(s.read)}); !ok {
			return dst, true
		}
		s.grant += s.read
		s.read = 0
	}
	if n := min(len(s.out), s.window, MaxMuxBody); n > 0 {
		if dst, ok = s.m.emit(dst, muxFrame{kind: muxData, stream: s.id, body: s.out[:n]}); !ok {
			return dst, true
		}
		s.out = s.out[n:]
		s.window -= n
		if len(s.out) == 0 {
			s.cond.Broadcast()
		}
	}
	return dst, false
}

// Read implements [net.Conn]. It first returns what arrived before the end of the stream or the epoch.
func (s *muxStream) Read(p []byte) (int, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, errClosed
		case s.readBy.over():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case s.buffer.Len() > 0:
			n, _ := s.buffer.Read(p)
			s.read += n
			if s.wantsToSend() {
				s.m.enqueue(s)
			}
			return n, nil
		case s.err != nil:
			return 0, s.err
		case s.closeReceived:
			return 0, io.EOF
		}
		s.cond.Wait()
	}
}

// Write implements [net.Conn]. It returns when all of p is sent.
func (s *muxStream) Write(p []byte) (int, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for s.writing && s.writable() == nil {
		s.cond.Wait()
	}
	if err := s.writable(); err != nil {
		return 0, err
	}
	s.writing, s.out = true, p
	if s.wantsToSend() {
		s.m.enqueue(s)
	}
	for len(s.out) > 0 && s.writable() == nil {
		s.cond.Wait()
	}
	n := len(p) - len(s.out)
	s.writing, s.out = false, nil
	s.cond.Broadcast()
	if n < len(p) {
		return n, s.writable()
	}
	return n, nil
}

func (s *muxStream) writable() error {
	switch {
	case s.closed:
		return errClosed
	case s.err != nil:
		return s.err
	case s.closeReceived:
		return io.ErrClosedPipe
	case s.writeBy.over():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Close implements [net.Conn]. Earlier writes still arrive.
func (s *muxStream) Close() error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.buffer = bytes.Buffer{}
	s.readBy.stop()
	s.writeBy.stop()
	if s.wantsToSend() {
		s.m.enqueue(s)
	}
	s.cond.Broadcast()
	return nil
}

// LocalAddr implements [net.Conn].
func (s *muxStream) LocalAddr() net.Addr { return muxAddr(s.id) }

// RemoteAddr implements [net.Conn].
func (s *muxStream) RemoteAddr() net.Addr { return muxAddr(s.id) }

// SetDeadline implements [net.Conn].
func (s *muxStream) SetDeadline(t time.Time) error {
	return s.setDeadlines(t, &s.readBy, &s.writeBy)
}

// SetReadDeadline implements [net.Conn].
func (s *muxStream) SetReadDeadline(t time.Time) error { return s.setDeadlines(t, &s.readBy) }

// SetWriteDeadline implements [net.Conn].
func (s *muxStream) SetWriteDeadline(t time.Time) error { return s.setDeadlines(t, &s.writeBy) }

func (s *muxStream) setDeadlines(t time.Time, which ...*muxDeadline) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.closed {
		return errClosed
	}
	for _, d := range which {
		d.set(t, s)
	}
	s.cond.Broadcast()
	return nil
}

// muxDeadline wakes the waiters of a stream when it expires.
type muxDeadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *muxDeadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *muxDeadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *muxDeadline) set(t time.Time, s *muxStream) {
	d.stop()
	d.at, d.timer = t, nil
	if !t.IsZero() && !d.over() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			s.m.mu.Lock()
			defer s.m.mu.Unlock()
			s.cond.Broadcast()
		})
	}
}

// muxAddr is the address of a stream: its id.
type muxAddr uint32

// Network implements [net.Addr].
func (a muxAddr) Network() string { return "mux" }

func (a muxAddr) String() string { return strconv.FormatUint(uint64(a), 10) }
