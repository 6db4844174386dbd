package service

import (
	"time"

	"github.com/belljar/belljar/internal/service/clock"
)

// Clock returns the time and sets timers.
type Clock = clock.Clock

// now returns the current time in the precision of records.
func (s *Service) now() time.Time { return clock.Stamp(s.clock) }

// seconds converts a field in seconds to a duration.
func seconds(s float64) time.Duration { return clock.Seconds(s) }
