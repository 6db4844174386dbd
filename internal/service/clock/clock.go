// Package clock is the time as the service sees it, so that tests can have their own.
package clock

import (
	"math"
	"time"
)

// Clock is the time and sets timers.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own when d has passed. stop reports whether it prevented that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Wall is the machine's clock.
type Wall struct{}

// Now is the time of day.
func (Wall) Now() time.Time { return time.Now() }

// AfterFunc sets a timer.
func (Wall) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// Stamp is the time as it goes on record: to the microsecond, in UTC.
func Stamp(c Clock) time.Time { return c.Now().UTC().Truncate(time.Microsecond) }

// Seconds is a duration from a field in seconds; one too long for a duration is the longest.
func Seconds(s float64) time.Duration {
	if s > math.MaxInt64/float64(time.Second)/4 {
		return math.MaxInt64 / 4
	}
	return time.Duration(s * float64(time.Second))
}
