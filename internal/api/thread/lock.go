package thread

import (
	"context"
	"sync"
)

// sessionLocks lets one upload at a time change a session, so that two cannot pass the same limit at once. The zero value
// is ready.
type sessionLocks struct {
	mu    sync.Mutex
	locks map[string]*sessionLock
}

type sessionLock struct {
	free  chan struct{} // holds a token while the lock is free
	users int           // the holder and those that wait
}

// lock waits for a session's lock; the caller calls unlock. It fails with ctx's error.
func (l *sessionLocks) lock(ctx context.Context, session string) (unlock func(), err error) {
	l.mu.Lock()
	if l.locks == nil {
		l.locks = map[string]*sessionLock{}
	}
	own := l.locks[session]
	if own == nil {
		own = &sessionLock{free: make(chan struct{}, 1)}
		own.free <- struct{}{}
		l.locks[session] = own
	}
	own.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(l.locks, session)
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
