package snapshot

import "sync"

// locks are one lock for the bytes of each digest of a user: none are removed while a record of them is made. The zero value is ready.
type locks struct {
	mu   sync.Mutex
	held map[[2]string]*lock
}

type lock struct {
	sync.Mutex
	users int // guarded by the mu of all
}

// lock waits for the bytes, and returns what unlocks them.
func (l *locks) lock(user, digest string) (unlock func()) {
	key := [2]string{user, digest}
	l.mu.Lock()
	if l.held == nil {
		l.held = map[[2]string]*lock{}
	}
	one := l.held[key]
	if one == nil {
		one = &lock{}
		l.held[key] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.held, key)
		}
	}
}
