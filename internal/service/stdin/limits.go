package stdin

import (
	"cmp"
	"fmt"
	"math"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// Limits bounds the input of an interactive run.
type Limits struct {
	MaxBytes       int64 // in total
	MaxFrameBytes  int64 // of one write
	BytesPerSec    int64
	IdleTimeoutSec float64 // without a write
}

// LimitsOf returns the limits that a request sets.
func LimitsOf(s *belljar.RunSpec) Limits {
	return Limits{s.StdinMaxBytes, s.StdinMaxFrameBytes, s.StdinBytesPerSec, s.StdinIdleTimeoutSec}
}

// Apply sets the limits in a request.
func (l Limits) Apply(s *belljar.RunSpec) {
	s.StdinMaxBytes, s.StdinMaxFrameBytes, s.StdinBytesPerSec, s.StdinIdleTimeoutSec = l.MaxBytes, l.MaxFrameBytes, l.BytesPerSec, l.IdleTimeoutSec
}

// DefaultLimits are the limits of an interactive run that sets none.
func DefaultLimits() Limits {
	return Limits{MaxBytes: 1 << 20, MaxFrameBytes: 64 << 10, BytesPerSec: 1 << 20, IdleTimeoutSec: 30}
}

// MaxLimits are the maximum limits of an interactive run.
func MaxLimits() Limits {
	return Limits{MaxBytes: 64 << 20, MaxFrameBytes: 64 << 10, BytesPerSec: 16 << 20, IdleTimeoutSec: 3600}
}

// Resolve returns the limits in force for a request. A zero field has the default. A field that is invalid or above most is refused.
func Resolve(ask, defaults, most Limits) (Limits, error) {
	for _, row := range []struct {
		field     string
		ask, most float64
	}{
		{limitBytes, float64(ask.MaxBytes), float64(most.MaxBytes)},
		{limitFrameBytes, float64(ask.MaxFrameBytes), float64(most.MaxFrameBytes)},
		{limitRate, float64(ask.BytesPerSec), float64(most.BytesPerSec)},
		{limitIdle, ask.IdleTimeoutSec, most.IdleTimeoutSec},
	} {
		switch {
		case row.ask < 0 || math.IsNaN(row.ask) || math.IsInf(row.ask, 0):
			return ask, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%s must not be %v", row.field, row.ask),
				Details: map[string]any{"field": row.field, "provided": fmt.Sprint(row.ask)},
			}
		case row.ask > row.most:
			return ask, fault.Above(row.field, row.most, row.ask)
		}
	}
	return Complete(ask, defaults), nil
}

// Complete fills the zero fields of l.
func Complete(l, defaults Limits) Limits {
	l.MaxBytes = cmp.Or(l.MaxBytes, defaults.MaxBytes)
	l.MaxFrameBytes = cmp.Or(l.MaxFrameBytes, defaults.MaxFrameBytes)
	l.BytesPerSec = cmp.Or(l.BytesPerSec, defaults.BytesPerSec)
	l.IdleTimeoutSec = cmp.Or(l.IdleTimeoutSec, defaults.IdleTimeoutSec)
	return l
}
