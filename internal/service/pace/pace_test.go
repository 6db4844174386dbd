package pace

import (
	"testing"
	"time"
)

func TestReserve(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	l := New(10)
	for _, step := range []struct {
		after time.Duration
		n     int
		wait  time.Duration
	}{
		{0, 10, 0}, // the bucket is full initially
		{0, 5, 500 * time.Millisecond},
		{500 * time.Millisecond, 30, 3 * time.Second}, // more than the bucket holds
		{0, 1, 3100 * time.Millisecond},               // all share the debt
		{time.Hour, 10, 0},
	} {
		now = now.Add(step.after)
		wait, _ := Reserve(l, now, step.n)
		if off := wait - step.wait; off < -time.Microsecond || off > time.Microsecond {
			t.Errorf("%d tokens after %v: wait %v, want %v", step.n, step.after, wait, step.wait)
		}
	}
}

func TestReserveCancel(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	l := New(10)
	_, _ = Reserve(l, now, 10)
	_, cancel := Reserve(l, now, 35)
	cancel()
	if wait, _ := Reserve(l, now, 1); wait != 100*time.Millisecond {
		t.Errorf("wait %v after the reservation was given back, want 100ms", wait)
	}
}
