package terminal

import (
	"context"
	"sync"
	"time"
)

// typed is what was typed and is not sent yet. While the connection is away it collects, so that the keys that leave are
// found all the same.
type typed struct {
	mu      sync.Mutex
	waiting []byte
	sending bool          // what was taken is on its way
	some    chan struct{} // holds one when there is something
	room    chan struct{} // holds one when something was sent
}

// Bounds of what is typed: of what is sent at once, and of what an input that is no person's may bring beforehand.
const (
	mostSent  = 32 << 10
	mostAhead = 256 << 10
)

func newTyped() *typed {
	return &typed{some: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// add takes what was typed; bounded, it waits until there is room. It reports whether anybody is still interested.
func (t *typed) add(ctx context.Context, b []byte, bounded bool) bool {
	for {
		t.mu.Lock()
		full := bounded && len(t.waiting) >= mostAhead
		if !full {
			t.waiting = append(t.waiting, b...)
		}
		t.mu.Unlock()
		if !full {
			signalOne(t.some)
			return ctx.Err() == nil
		}
		select {
		case <-t.room:
		case <-ctx.Done():
			return false
		}
	}
}

// take returns what is next to be sent, after some.
func (t *typed) take() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), mostSent)
	b := t.waiting[:n:n]
	t.waiting, t.sending = t.waiting[n:], true
	if len(t.waiting) > 0 {
		signalOne(t.some)
	}
	return b
}

// sent says that what was taken has arrived.
func (t *typed) sent() {
	t.mu.Lock()
	t.sending = false
	t.mu.Unlock()
	signalOne(t.room)
}

// flush waits a moment until all of it has arrived.
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
