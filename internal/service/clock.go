package service

import "time"

// Clock tells the time, and when it has come. Tests have one of their own.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own when d has passed. stop reports whether it prevented that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// wallClock is the machine's.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// now is the time as it goes on record: to the microsecond, in UTC.
func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Microsecond) }
