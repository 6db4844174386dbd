package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// errReset ends the streams of an epoch when the next one starts.
var errReset = errors.New("a new host has replaced this one")

// muxBatch is how much the writer collects for one write, roughly.
const muxBatch = 32 << 10

// mux is the part that both ends share: the streams, one goroutine that reads frames and one that writes them.
type mux struct {
	rwc  io.ReadWriteCloser
	side muxSide
	done chan struct{} // closed when the byte stream is closed
	both sync.WaitGroup

	mu      sync.Mutex // guards the following fields, the streams and the side's state
	wake    sync.Cond  // signals that the writer has something to do
	changed sync.Cond  // signals that a stream opened or closed, or the epoch or the mux ended
	err     error      // why the byte stream was closed
	live    bool       // an epoch is active
	in, out epoch
	streams map[uint32]*muxStream
	queue   []*muxStream // with something to send, in order
}

// muxSide is the part in which host and agent differ. Its methods are called with mu held.
type muxSide interface {
	// handle processes the bytes between two delimiters; an error closes the byte stream.
	handle(encoded []byte) error
	// lead appends the frames that precede those of streams.
	lead(dst []byte) []byte
	// allowed reports whether cost more bytes may be written; spend reserves them.
	allowed(cost int) bool
	spend(n int)
}

func (m *mux) start(rwc io.ReadWriteCloser, side muxSide) {
	m.rwc, m.side = rwc, side
	m.done = make(chan struct{})
	m.wake.L, m.changed.L = &m.mu, &m.mu
	m.streams = make(map[uint32]*muxStream)
	m.both.Go(m.readFrames)
	m.both.Go(m.writeFrames)
}

// Close closes the byte stream and every stream. It waits for the multiplexer's goroutines, so closing the byte stream must make
// its Read and Write return.
func (m *mux) Close() error {
	m.fail(errClosed)
	m.both.Wait()
	return nil
}

// fail closes the byte stream with the error err, unless it is closed already.
func (m *mux) fail(err error) {
	m.mu.Lock()
	first := m.err == nil
	if first {
		m.err = err
		m.endEpoch(err)
		close(m.done)
		m.wake.Broadcast()
	}
	m.mu.Unlock()
	if first {
		m.rwc.Close()
	}
}

// endEpoch drops every stream.
func (m *mux) endEpoch(err error) {
	m.live = false
	for _, s := range m.streams {
		s.err = err
		s.cond.Broadcast()
	}
	clear(m.streams)
	m.queue = nil
	m.changed.Broadcast()
}

func (m *mux) readFrames() {
	// A frame and its delimiter fit; anything larger is invalid.
	r := bufio.NewReaderSize(m.rwc, max(maxMuxEncoded+1, muxBatch))
	for {
		encoded, err := r.ReadSlice(0)
		tooLong := false
		for errors.Is(err, bufio.ErrBufferFull) {
			tooLong = true
			encoded, err = r.ReadSlice(0)
		}
		if err != nil {
			m.fail(fmt.Errorf("read multiplexed frames: %w", err))
			return
		}
		encoded = encoded[:len(encoded)-1]
		if len(encoded) == 0 && !tooLong {
			continue
		}
		if tooLong {
			encoded = nil // invalid, like any damaged frame
		}
		m.mu.Lock()
		if m.err == nil {
			err = m.side.handle(encoded)
		}
		m.mu.Unlock()
		if err != nil {
			m.fail(err)
			return
		}
	}
}

func (m *mux) writeFrames() {
	buf := make([]byte, 0, muxBatch+maxMuxEncoded+1)
	for {
		m.mu.Lock()
		for buf = m.fill(buf[:0]); len(buf) == 0 && m.err == nil; buf = m.fill(buf[:0]) {
			m.wake.Wait()
		}
		ended := m.err != nil
		m.mu.Unlock()
		if ended {
			return
		}
		if _, err := m.rwc.Write(buf); err != nil {
			m.fail(fmt.Errorf("write multiplexed frames: %w", err))
			return
		}
	}
}

// fill appends the frames that can be sent now: the side's own, then each stream's in turn.
func (m *mux) fill(dst []byte) []byte {
	if m.err != nil {
		return dst
	}
	dst = m.side.lead(dst)
	for len(m.queue) > 0 && m.live && len(dst) < muxBatch {
		s := m.queue[0]
		var blocked bool
		if dst, blocked = s.fill(dst); blocked {
			break
		}
		m.queue = m.queue[1:]
		s.queued = false
		if s.wantsToSend() {
			m.enqueue(s)
		}
	}
	return dst
}

// enqueue adds s to the send queue.
func (m *mux) enqueue(s *muxStream) {
	if !s.queued && m.streams[s.id] == s {
		s.queued = true
		m.queue = append(m.queue, s)
		m.wake.Signal()
	}
}

// emit appends a frame of the epoch if it is allowed.
func (m *mux) emit(dst []byte, f muxFrame) ([]byte, bool) {
	if !m.side.allowed(muxCost(len(f.body))) {
		return dst, false
	}
	before := len(dst)
	dst = f.append(dst, &m.out)
	m.side.spend(len(dst) - before)
	return dst, true
}

// handleStream handles a frame that both sides support.
func (m *mux) handleStream(f muxFrame) error {
	s := m.streams[f.stream]
	if s == nil {
		return fmt.Errorf("%w: type %d on stream %d, which is not open", ErrMux, f.kind, f.stream)
	}
	if s.closeReceived {
		return fmt.Errorf("%w: type %d after the close of stream %d", ErrMux, f.kind, f.stream)
	}
	switch f.kind {
	case muxData:
		if len(f.body) > s.grant {
			return fmt.Errorf("%w: %d bytes over the window of stream %d", ErrMux, len(f.body)-s.grant, f.stream)
		}
		s.grant -= len(f.body)
		if !s.closed {
			s.buffer.Write(f.body)
		}
	case muxWindow:
		if n := f.number(); n == 0 || n > MuxWindow-s.window {
			return fmt.Errorf("%w: window of stream %d raised by %d to more than its most", ErrMux, f.stream, n)
		}
		s.window += f.number()
	case muxClose:
		s.closeReceived = true
		if s.closeSent {
			m.drop(s)
		}
	default:
		return fmt.Errorf("%w: unexpected frame of type %d", ErrMux, f.kind)
	}
	if s.wantsToSend() {
		m.enqueue(s)
	}
	s.cond.Broadcast()
	return nil
}

// drop removes a stream that both sides have closed.
func (m *mux) drop(s *muxStream) {
	delete(m.streams, s.id)
	m.changed.Broadcast()
}

func number(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
