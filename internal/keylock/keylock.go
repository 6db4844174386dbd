// Package keylock provides one lock for each key, such as the id of a session.
package keylock

import (
	"context"
	"sync"
)

// Locks are locks by key. The zero value is ready.
type Locks[K comparable] struct {
	mu    sync.Mutex
	byKey map[K]*keyLock
}

type keyLock struct {
	free  chan struct{} // holds a token while the lock is free
	users int           // the holder and the waiting callers
}

// Lock waits for the lock of a key; the caller calls unlock. The error is that of ctx.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	l.mu.Lock()
	if l.byKey == nil {
		l.byKey = map[K]*keyLock{}
	}
	own := l.byKey[key]
	if own == nil {
		own = &keyLock{free: make(chan struct{}, 1)}
		own.free <- struct{}{}
		l.byKey[key] = own
	}
	own.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(l.byKey, key)
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
