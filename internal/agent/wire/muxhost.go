package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
)

// MuxHost is the host's end of a multiplexed byte stream. Safe for concurrent use.
type MuxHost struct {
	mux
	nonce nonce
	reset bool // reset has been sent
	ready bool // ready has arrived
	last  uint32
	owed  int // bytes read and not yet granted again
	left  int // bytes that the agent may still write
}

// NewMuxHost takes over a byte stream from any previous host and starts a new epoch. When the stream fails or the agent violates a
// rule, it closes the stream and every connection over it. Closing rwc must make its Read and Write return.
func NewMuxHost(rwc io.ReadWriteCloser) *MuxHost {
	h := &MuxHost{left: MuxGrant}
	// The nonce must be new, not secret. The agent includes this file, and package crypto/rand would slow down its start.
	for i := 0; i+8 <= len(h.nonce); i += 8 {
		binary.NativeEndian.PutUint64(h.nonce[i:], rand.Uint64())
	}
	h.start(rwc, h)
	return h
}

type urgentKey struct{}

// Urgent returns a context with which [MuxHost.Dial] also uses the reserved streams. It is for short requests of the host, without which
// a sandbox whose connections take all other streams would look dead.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// Dial opens a stream. It waits until the agent has joined the new epoch, and while MaxMuxStreams streams are open, of which the last
// MuxReserved need [Urgent].
func (h *MuxHost) Dial(ctx context.Context) (net.Conn, error) {
	unhook := context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.changed.Broadcast()
	})
	defer unhook()
	most := MaxMuxStreams - MuxReserved
	if ctx.Value(urgentKey{}) != nil {
		most = MaxMuxStreams
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.err != nil:
			return nil, fmt.Errorf("dial over the multiplexer: %w", h.err)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case h.ready && len(h.streams) < most:
			h.last++
			s := newMuxStream(&h.mux, h.last, false)
			h.streams[s.id] = s
			h.enqueue(s)
			return s, nil
		}
		h.changed.Wait()
	}
}

// Done is closed when the byte stream is closed.
func (h *MuxHost) Done() <-chan struct{} { return h.done }

// Err returns why the byte stream was closed: net.ErrClosed after Close, nil before Done.
func (h *MuxHost) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func (h *MuxHost) handle(encoded []byte) error {
	if !h.ready {
		h.awaitReady(encoded)
		return nil
	}
	if h.left -= len(encoded) + 1; h.left < 0 {
		return fmt.Errorf("%w: the agent writes more than was granted", ErrMux)
	}
	if h.owed += len(encoded) + 1; h.owed >= MuxGrant/2 {
		h.wake.Signal()
	}
	f, err := parseMuxFrame(encoded, &h.in)
	if err != nil {
		return err
	}
	if f.kind == muxBroken {
		return fmt.Errorf("%w: reported by the agent", ErrMux)
	}
	return h.handleStream(f)
}

// awaitReady discards everything until the reply to our reset.
func (h *MuxHost) awaitReady(encoded []byte) {
	e := epoch{nonce: h.nonce}
	f, err := parseMuxFrame(encoded, &e)
	if err != nil || f.kind != muxReady || nonce(f.body) != h.nonce {
		return
	}
	h.in = e
	h.ready, h.live = true, true
	h.changed.Broadcast()
}

func (h *MuxHost) lead(dst []byte) []byte {
	if !h.reset {
		h.reset = true
		h.out = epoch{nonce: h.nonce}
		body := append(append([]byte(nil), h.nonce[:]...), number(MuxGrant)...)
		return muxFrame{kind: muxReset, body: body}.append(append(dst, 0), nil)
	}
	if h.owed >= MuxGrant/2 {
		dst = muxFrame{kind: muxGrant, body: number(h.owed)}.append(dst, &h.out)
		h.left += h.owed
		h.owed = 0
	}
	return dst
}

func (h *MuxHost) allowed(int) bool { return true }

func (h *MuxHost) spend(int) {}
