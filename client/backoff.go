package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// backoff is how often something has failed in a row.
type backoff int

func (b *backoff) next() { *b++ }

// pause is how long to wait: from 0.2 s, doubling, to 30 s, give or take a tenth (docs/compatibility.md#frames).
func (b backoff) pause() time.Duration {
	return jitter(min(200*time.Millisecond<<min(int(b), 10), 30*time.Second))
}

// after says whether it is worth to try again after err, and how long to wait for that: never less than was asked for.
func (b backoff) after(err error) (pause time.Duration, again bool) {
	var p *passing
	if !errors.As(err, &p) || p.most > 0 && int(b) >= p.most {
		return 0, false
	}
	if p.after > 0 {
		return time.Duration(float64(p.after) * (1 + 0.1*rand.Float64())), true
	}
	return b.pause(), true
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// sleep waits and reports whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
