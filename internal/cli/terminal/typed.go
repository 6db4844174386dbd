package terminal

import (
	"context"
	"sync"
	"time"
)

// typed buffers input that is not sent yet. While the connection is down it collects input, so that the detach sequence still
// works.
type typed struct {
	mu      sync.Mutex
	waiting []byte
	sending bool          // the taken input is being sent
	ready   chan struct{} // signals that input is available
	room    chan struct{} // signals that input was sent
}

// The maximum size of one message, and the bytes that input from a pipe may buffer.
const (
	maxSent     = 32 << 10
	maxBuffered = 256 << 10
)

func newTyped() *typed {
	return &typed{ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// add buffers input. If bounded, it waits for room. It reports whether the reader should continue.
func (t *typed) add(ctx context.Context, b []byte, bounded bool) bool {
	for {
		t.mu.Lock()
		full := bounded && len(t.waiting) >= maxBuffered
		if !full {
			t.waiting = append(t.waiting, b...)
		}
		t.mu.Unlock()
		if !full {
			signalOne(t.ready)
			return ctx.Err() == nil
		}
		select {
		case <-t.room:
		case <-ctx.Done():
			return false
		}
	}
}

// take returns the input to send next. The caller waits for ready first.
func (t *typed) take() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), maxSent)
	b := t.waiting[:n:n]
	t.waiting, t.sending = t.waiting[n:], true
	if len(t.waiting) > 0 {
		signalOne(t.ready)
	}
	return b
}

// sent records that the taken input has arrived.
func (t *typed) sent() {
	t.mu.Lock()
	t.sending = false
	t.mu.Unlock()
	signalOne(t.room)
}

// flush waits briefly until all input has arrived.
func (t *typed) flush(ctx context.Context) {
	late := time.After(300 * time.Millisecond)
	for {
		t.mu.Lock()
		done := len(t.waiting) == 0 && !t.sending
		t.mu.Unlock()
		if done {
			return
		}
		select {
		case <-t.room:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

func signalOne(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
