package thread

import (
	"context"
	"sync"
)

// turns lets one upload at a time change a session, so that two cannot pass the same bound side by side. The zero value
// is ready.
type turns struct {
	mu   sync.Mutex
	next map[string]*turn
}

type turn struct {
	free    chan struct{} // holds a token while nobody has the turn
	waiting int
}

// take waits for a session's turn; the caller gives it back. It fails with ctx's error.
func (t *turns) take(ctx context.Context, session string) (back func(), err error) {
	t.mu.Lock()
	if t.next == nil {
		t.next = map[string]*turn{}
	}
	own := t.next[session]
	if own == nil {
		own = &turn{free: make(chan struct{}, 1)}
		own.free <- struct{}{}
		t.next[session] = own
	}
	own.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.waiting--; own.waiting == 0 {
			delete(t.next, session)
		}
	}
	select {
	case <-own.free:
		return func() {
			own.free <- struct{}{}
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
