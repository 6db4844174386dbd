package service

import (
	"fmt"
	"math"

	"github.com/belljar/belljar"
)

// DefaultStdinLimits are those of an interactive run that asks for nothing (S0 §32).
func DefaultStdinLimits() belljar.StdinLimits {
	return belljar.StdinLimits{MaxBytes: 1 << 20, MaxFrameBytes: 64 << 10, BytesPerSec: 1 << 20, IdleTimeoutSec: 30}
}

// MaxStdinLimits are the most that an interactive run can ask for.
func MaxStdinLimits() belljar.StdinLimits {
	return belljar.StdinLimits{MaxBytes: 64 << 20, MaxFrameBytes: 64 << 10, BytesPerSec: 16 << 20, IdleTimeoutSec: 3600}
}

// admitStdin decides about the input of an interactive run.
func (s *Service) admitStdin(p *plan) (err error) {
	if !p.request.Interactive {
		return nil
	}
	if s.opts.Policy.NoInteractive {
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "interactive runs are not allowed here",
			Details: map[string]any{"field": "interactive", "rule": "SANDBOX_NO_INTERACTIVE"},
		}
	}
	p.request.StdinLimits, err = resolveStdin(p.request.StdinLimits, s.opts.Stdin, s.opts.MaxStdin)
	return err
}

// resolveStdin turns what a request asks for into the limits in force: those of defaults where it asks for nothing,
// refused where that makes no sense or is above most.
func resolveStdin(ask, defaults, most belljar.StdinLimits) (belljar.StdinLimits, error) {
	for _, row := range []struct {
		field     string
		ask, most float64
	}{
		{stdinMaxBytes, float64(ask.MaxBytes), float64(most.MaxBytes)},
		{stdinMaxFrameBytes, float64(ask.MaxFrameBytes), float64(most.MaxFrameBytes)},
		{stdinBPS, float64(ask.BytesPerSec), float64(most.BytesPerSec)},
		{stdinIdleTimeout, ask.IdleTimeoutSec, most.IdleTimeoutSec},
	} {
		switch {
		case row.ask < 0 || math.IsNaN(row.ask) || math.IsInf(row.ask, 0):
			return ask, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%s must not be %v", row.field, row.ask),
				Details: map[string]any{"field": row.field, "provided": fmt.Sprint(row.ask)},
			}
		case row.ask > row.most:
			return ask, &belljar.Error{
				Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("%s is limited to %v here, got %v", row.field, row.most, row.ask),
				Details: map[string]any{"field": row.field, "provided": row.ask, "maximum": row.most},
			}
		}
	}
	return stdinOrElse(ask, defaults), nil
}

// stdinOrElse fills the zero fields of l.
func stdinOrElse(l, defaults belljar.StdinLimits) belljar.StdinLimits {
	fill(&l.MaxBytes, defaults.MaxBytes)
	fill(&l.MaxFrameBytes, defaults.MaxFrameBytes)
	fill(&l.BytesPerSec, defaults.BytesPerSec)
	fill(&l.IdleTimeoutSec, defaults.IdleTimeoutSec)
	return l
}
