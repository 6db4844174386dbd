//go:build linux

package guest

import (
	"sync"
	"sync/atomic"
	"time"
)

// lease calls over when no host has made contact for its length. A contact is one atomic store: when the timer fires, it checks
// how much time is left.
type lease struct {
	born time.Time
	last atomic.Int64 // of the latest contact, since born
	over func()

	mu    sync.Mutex // guards the following fields
	time  time.Duration
	timer *time.Timer
	ended bool
}

// newLease starts a lease; a length of 0 never expires.
func newLease(length time.Duration, over func()) *lease {
	l := &lease{born: time.Now(), over: over}
	l.set(length)
	return l
}

// contact renews the lease.
func (l *lease) contact() { l.last.Store(int64(time.Since(l.born))) }

// set changes the length from now on.
func (l *lease) set(length time.Duration) {
	l.contact()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.time = length
	l.arm(length)
}

func (l *lease) length() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time
}

func (l *lease) arm(d time.Duration) {
	if l.timer != nil {
		l.timer.Stop()
	}
	if !l.ended && l.time > 0 {
		l.timer = time.AfterFunc(d, l.check)
	}
}

func (l *lease) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.time == 0 {
		return
	}
	left := l.time - (time.Since(l.born) - time.Duration(l.last.Load()))
	if left > 0 {
		l.arm(left)
		return
	}
	l.ended = true
	l.over()
}

func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
}
