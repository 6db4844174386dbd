package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// backoff is the retry budget of one operation. Its time starts at the first failure, because a single try may take longer.
type backoff struct {
	failures int // consecutive ones, before the current try
	patience time.Duration
	deadline time.Time // zero until the first failure
}

func (b *backoff) next() { b.failures++ }

// pause returns the delay before the next try: from 0.2 s, doubling, to 30 s, with a jitter of 10 %
// (docs/compatibility.md#frames).
func (b *backoff) pause() time.Duration {
	return jitter(min(200*time.Millisecond<<min(b.failures, 10), 30*time.Second))
}

// after reports whether to retry after err, and the delay: never less than the server's Retry-After.
func (b *backoff) after(err error) (pause time.Duration, again bool) {
	var p *passing
	if !errors.As(err, &p) || p.most > 0 && b.failures >= p.most {
		return 0, false
	}
	now := time.Now()
	if b.deadline.IsZero() {
		b.deadline = now.Add(b.patience)
	}
	pause = b.pause()
	if p.after > 0 {
		pause = time.Duration(float64(p.after) * (1 + 0.1*rand.Float64()))
	}
	return pause, !now.Add(pause).After(b.deadline)
}

// until estimates when the last retry after err ends, with pauses like this one. It is never later than the deadline.
func (b *backoff) until(err error, pause time.Duration) time.Time {
	var p *passing
	if errors.As(err, &p) && p.most > 0 {
		if last := time.Now().Add(time.Duration(p.most-b.failures) * pause); last.Before(b.deadline) {
			return last
		}
	}
	return b.deadline
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// sleep waits for d; false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
