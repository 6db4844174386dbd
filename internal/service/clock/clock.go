// Package clock provides the service's time, so that tests can replace it.
package clock

import (
	"math"
	"time"
)

// Clock returns the time and sets timers.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own after d. stop reports whether it prevented that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Wall is the machine's clock.
type Wall struct{}

// Now returns the time of day.
func (Wall) Now() time.Time { return time.Now() }

// AfterFunc sets a timer.
func (Wall) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// Stamp returns the time in the precision of records: to the microsecond, in UTC.
func Stamp(c Clock) time.Time { return c.Now().UTC().Truncate(time.Microsecond) }

// Seconds converts a field in seconds to a duration, limited to a quarter of the longest one.
func Seconds(s float64) time.Duration {
	if s > math.MaxInt64/float64(time.Second)/4 {
		return math.MaxInt64 / 4
	}
	return time.Duration(s * float64(time.Second))
}
