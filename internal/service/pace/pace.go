// Package pace delays senders that exceed a rate.
package pace

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// New returns a token bucket that holds the tokens of one second.
func New(perSecond int64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), int(perSecond))
}

// Reserve takes n tokens, even more than the bucket holds, and returns how long to wait for them. cancel returns them;
// call it before anything else is taken.
func Reserve(l *rate.Limiter, now time.Time, n int) (wait time.Duration, cancel func()) {
	var taken []*rate.Reservation
	for n > 0 {
		part := min(n, max(l.Burst(), 1))
		r := l.ReserveN(now, part)
		taken, wait = append(taken, r), r.DelayFrom(now)
		n -= part
	}
	return wait, func() {
		for _, r := range slices.Backward(taken) {
			r.CancelAt(now)
		}
	}
}
