package service

import (
	"time"

	"github.com/belljar/belljar/internal/service/clock"
)

// Clock returns the time and sets timers.
type Clock = clock.Clock

// now is the time as it goes on record.
func (s *Service) now() time.Time { return clock.Stamp(s.clock) }

// seconds is a duration from a field in seconds.
func seconds(s float64) time.Duration { return clock.Seconds(s) }
