//go:build linux

// Package lease ends an agent without a host.
package lease

import (
	"sync"
	"sync/atomic"
	"time"
)

// Lease calls over when no host has made contact for its length. A contact is one atomic store: when the timer fires, it checks
// how much time is left.
type Lease struct {
	born time.Time
	last atomic.Int64 // of the latest contact, since born
	over func()

	mu    sync.Mutex // guards the following fields
	time  time.Duration
	timer *time.Timer
	ended bool
}

// New starts a lease; a length of 0 never expires.
func New(length time.Duration, over func()) *Lease {
	l := &Lease{born: time.Now(), over: over}
	l.Set(length)
	return l
}

// Contact renews the lease.
func (l *Lease) Contact() { l.last.Store(int64(time.Since(l.born))) }

// Set changes the length from now on.
func (l *Lease) Set(length time.Duration) {
	l.Contact()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.time = length
	l.arm(length)
}

// Length returns the current length.
func (l *Lease) Length() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time
}

func (l *Lease) arm(d time.Duration) {
	if l.timer != nil {
		l.timer.Stop()
	}
	if !l.ended && l.time > 0 {
		l.timer = time.AfterFunc(d, l.check)
	}
}

func (l *Lease) check() {
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

// End ends the lease without a call of over.
func (l *Lease) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
}
