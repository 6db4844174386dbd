package upstream

import (
	"cmp"
	"math/rand/v2"
	"sync"
	"time"
)

// The states of a circuit.
const (
	Closed   = "closed"    // requests are sent
	HalfOpen = "half-open" // one request at a time is sent, to test whether the server is back
	Open     = "open"      // no request is sent
)

// Breaker stops requests to a server that does not answer. After Failures failed requests in a row it opens, for Rest and up to a half
// more. Then it lets one request through: a success closes it, a failure opens it again. The zero value is usable, with 5 failures and
// 10 s. Safe for concurrent use.
type Breaker struct {
	Failures int
	Rest     time.Duration
	Now      func() time.Time // nil is time.Now

	mu      sync.Mutex
	failed  int
	until   time.Time // the end of the open state; zero if closed
	probing bool      // a request is in progress to test whether the server is back
}

func (b *Breaker) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

// Allow reports whether a request may be sent. If so, [Breaker.Done] or [Breaker.Forget] must follow.
func (b *Breaker) Allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return true
	}
	if b.probing || b.now().Before(b.until) {
		return false
	}
	b.probing = true
	return true
}

// Done records how a request ended.
func (b *Breaker) Done(ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	probe := b.probing
	b.probing = false
	if ok {
		b.failed, b.until = 0, time.Time{}
		return
	}
	if b.failed++; probe || b.failed >= cmp.Or(b.Failures, 5) {
		rest := cmp.Or(b.Rest, 10*time.Second)
		b.until = b.now().Add(rest + rand.N(rest/2)) // so that callers do not all retry together
	}
}

// Forget ends a request that gives no information about the server.
func (b *Breaker) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// State is closed, half-open or open.
func (b *Breaker) State() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return Closed
	case b.probing || !b.now().Before(b.until):
		return HalfOpen
	}
	return Open
}
