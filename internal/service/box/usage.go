package box

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/store"
)

// fresh is how long a reading of a sandbox's counters is reused when a command begins: a reading costs more than many a command.
const fresh = time.Second

// Shared is the last reading of the counters of a sandbox that several runs share, and the part that its owner was charged for. The zero
// value has no recent reading.
type Shared struct {
	CPUs float64 // what the sandbox may use at most, set before it has programs; 0 if it is not charged for lost figures

	mu      sync.Mutex
	read    time.Time
	last    runtime.Usage
	lost    time.Duration // the most that a sandbox can have used since the last reading that died with its counters; 0 for any other
	charged store.Charge
}

// Most sets CPUs to the limit in force. Without one it is a single core.
func (s *Shared) Most(l belljar.Limits) { s.CPUs = cmp.Or(l.CPU, 1) }

// New marks the sandbox as new: its counters are zero.
func (s *Shared) New() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.read, s.lost = runtime.Usage{}, time.Now(), 0
}

// Before returns the counters at the start of a command. It accepts a recent reading.
func (s *Shared) Before(ctx context.Context, sandbox runtime.Sandbox) runtime.Usage {
	s.mu.Lock()
	last, recent := s.last, time.Since(s.read) < fresh
	s.mu.Unlock()
	if recent {
		return last
	}
	return s.Now(ctx, sandbox)
}

// Now reads the counters. If that fails, it returns the last reading. A program that makes its sandbox die must not use CPU time that is
// not charged: if the counters ended with the sandbox, the time since the last reading counts as use of all its processors.
func (s *Shared) Now(ctx context.Context, sandbox runtime.Sandbox) runtime.Usage {
	usage, err := sandbox.Usage(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.last, s.read, s.lost = usage, time.Now(), 0
	case errors.Is(err, runtime.ErrGone):
		if s.lost == 0 && !s.read.IsZero() {
			s.lost = time.Duration(s.CPUs * float64(time.Since(s.read)))
		}
		return usage
	}
	return s.last
}

// CPU returns the CPU time of the sandbox until the last reading, or at its death at most; nil if it is unknown.
func (s *Shared) CPU() *time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cpu()
}

func (s *Shared) cpu() *time.Duration {
	switch {
	case s.lost == 0:
		return s.last.CPU
	case s.last.CPU == nil:
		return new(s.lost)
	}
	return new(*s.last.CPU + s.lost)
}

// Charge returns the usage in the last reading for which the owner was not charged yet. own is the CPU seconds of a run that has ended in
// it. They count while the sandbox has no figure of its own.
func (s *Shared) Charge(n *Network, own float64) (c store.Charge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.CPUSeconds = own; s.cpu() != nil {
		c.CPUSeconds = max(0, s.cpu().Seconds()-s.charged.CPUSeconds)
	}
	c.EgressBytes = n.Bytes() - s.charged.EgressBytes
	s.charged.CPUSeconds += c.CPUSeconds
	s.charged.EgressBytes += c.EgressBytes
	return c
}

// Restore reverts a charge that could not be recorded.
func (s *Shared) Restore(c store.Charge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charged.CPUSeconds -= c.CPUSeconds
	s.charged.EgressBytes -= c.EgressBytes
}

// Dying bounds the query for the exit of a sandbox whose agent is gone. The exit arrives slightly later, and much later on a busy machine.
// It distinguishes out of memory from an unknown reason.
const Dying = 10 * time.Second

// ExitOf returns the exit of a sandbox whose agent is gone, or nil if that is not known.
func ExitOf(ctx context.Context, sandbox runtime.Sandbox) *runtime.Exit {
	ctx, cancel := context.WithTimeout(ctx, Dying)
	defer cancel()
	exit, err := sandbox.Wait(ctx)
	if err != nil {
		return nil
	}
	return &exit
}
