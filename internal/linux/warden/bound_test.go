//go:build linux

package warden

import (
	"testing"
	"time"
)

const mib = 1 << 20

// Programs at their limit are within the documented tolerance: 5 %, or 8 MiB if that is more. Three quarters of that are the
// kernel's margin, and the warden starts to look before the limit is near.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ bytes, threshold, limit int64 }{
		{8 * mib, 4 * mib, 14 * mib},
		{64 * mib, 60 * mib, 70 * mib},
		{160 * mib, 156 * mib, 166 * mib},
		{1000 * mib, 975 * mib, 1037*mib + mib/2},
	} {
		if from, limit := Threshold(c.bytes), Limit(c.bytes); from != c.threshold || limit != c.limit {
			t.Errorf("of %d MiB: threshold %d, limit %d", c.bytes/mib, from, limit)
		}
	}
}

// The next look comes before programs at full pace reach the limit, and neither immediately nor never.
func TestNextLook(t *testing.T) {
	for _, c := range []struct {
		bytes, held int64
		grows       bool
		n, full     int
		look        time.Duration
		want        time.Duration
	}{
		{512 * mib, 512*mib + 512*mib/40 - 64*mib, false, 1, 1, 10 * time.Microsecond, 64 * mib * time.Second / pace},
		{512 * mib, 512 * mib, false, 1, 1, 10 * time.Microsecond, restful},
		{512 * mib, 512*mib + 512*mib/40 - 12*mib, true, 1, 1, 10 * time.Microsecond, 12 * mib * time.Second / pace},
		{64 * mib, 64 * mib, true, 1, 1, 10 * time.Microsecond, shortest},
		{512 * mib, 600 * mib, true, 1, 1, 10 * time.Microsecond, shortest},
		{512 * mib, 600 * mib, true, 50, 50, 10 * time.Microsecond, 50 * share},
		{8192 * mib, 0, false, 1, 1, 10 * time.Microsecond, longest},
		{64 * mib, 64 * mib, true, 1, 1, 90 * time.Microsecond, shortest},
		{64 * mib, 64 * mib, true, 10, 10, 90 * time.Microsecond, 9 * part * 90 * time.Microsecond},
		{64 * mib, 64 * mib, true, 10, 1, 90 * time.Microsecond, 10 * share},
	} {
		if got := next(c.bytes, c.held, c.grows, c.n, c.full, c.look); got != c.want {
			t.Errorf("%d MiB of %d, %d groups: %v, want %v", c.held/mib, c.bytes/mib, c.n, got, c.want)
		}
	}
}
