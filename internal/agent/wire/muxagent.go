package wire

import (
	"fmt"
	"io"
	"net"
)

// MuxAgent is the agent's end of a multiplexed byte stream: a [net.Listener] of the streams that hosts open. It serves any number
// of hosts in succession. Safe for concurrent use.
type MuxAgent struct {
	mux
	backlog []*muxStream // opened and not yet accepted
	last    uint32       // id of the newest stream
	credit  int          // bytes that may be written
	greet   bool         // ready must be sent
	broken  bool         // broken must be sent
}

// NewMuxAgent listens on a byte stream. Closing rwc must make its Read and Write return.
func NewMuxAgent(rwc io.ReadWriteCloser) *MuxAgent {
	a := &MuxAgent{}
	a.start(rwc, a)
	return a
}

// Accept returns the next stream that a host opens. It fails when the byte stream has ended.
func (a *MuxAgent) Accept() (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.backlog) == 0 {
		if a.err != nil {
			return nil, fmt.Errorf("accept over the multiplexer: %w", a.err)
		}
		a.changed.Wait()
	}
	s := a.backlog[0]
	a.backlog = a.backlog[1:]
	return s, nil
}

// Addr implements [net.Listener].
func (a *MuxAgent) Addr() net.Addr { return muxAddr(0) }

func (a *MuxAgent) handle(encoded []byte) error {
	var in *epoch
	if a.live {
		in = &a.in
	}
	f, err := parseMuxFrame(encoded, in)
	switch {
	case err == nil && f.kind == muxReset:
		a.begin(f)
	case !a.live: // between two epochs everything is discarded
	case err != nil:
		a.abort(err)
	default:
		if err := a.handleLive(f); err != nil {
			a.abort(err)
		}
	}
	return nil
}

// begin starts the epoch of a reset.
func (a *MuxAgent) begin(f muxFrame) {
	a.end(errReset)
	n := nonce(f.body)
	a.in, a.out = epoch{nonce: n}, epoch{nonce: n}
	a.credit = muxFrame{body: f.body[len(n):]}.number()
	a.last = 0
	a.live, a.greet, a.broken = true, true, false
	a.wake.Signal()
}

// abort ends the epoch after an invalid frame.
func (a *MuxAgent) abort(err error) {
	a.end(err)
	a.broken = true
	a.wake.Signal()
}

func (a *MuxAgent) end(err error) {
	for _, s := range a.backlog {
		s.closed = true
	}
	a.backlog = nil
	a.endEpoch(err)
}

func (a *MuxAgent) handleLive(f muxFrame) error {
	switch f.kind {
	case muxGrant:
		if a.credit += f.number(); a.credit > 1<<30 {
			return fmt.Errorf("%w: an absurd grant", ErrMux)
		}
		a.wake.Signal()
		return nil
	case muxOpen:
		if f.stream != a.last+1 || len(a.streams) >= MaxMuxStreams {
			return fmt.Errorf("%w: stream %d opened after %d, with %d open", ErrMux, f.stream, a.last, len(a.streams))
		}
		a.last = f.stream
		s := newMuxStream(&a.mux, f.stream, true)
		a.streams[s.id] = s
		a.backlog = append(a.backlog, s)
		a.changed.Broadcast()
		return nil
	}
	return a.handleStream(f)
}

func (a *MuxAgent) lead(dst []byte) []byte {
	if a.greet {
		a.greet = false
		dst = muxFrame{kind: muxReady, body: a.out.nonce[:]}.append(append(dst, 0), &a.out)
	}
	if a.broken {
		a.broken = false
		if a.credit >= muxCost(0) {
			dst = muxFrame{kind: muxBroken}.append(dst, &a.out)
		}
	}
	return dst
}

// allowed reserves enough credit to report that the epoch is broken.
func (a *MuxAgent) allowed(cost int) bool { return a.credit >= cost+muxCost(0) }

func (a *MuxAgent) spend(n int) { a.credit -= n }
