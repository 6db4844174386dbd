package box

import (
	"context"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/store"
)

// fresh is how long a reading of a sandbox's counters is reused when a command begins: a reading costs more than many a command.
const fresh = time.Second

// Shared is the last reading of the counters of a sandbox that several runs share, and the part that its owner was charged for. The zero
// value has no recent reading.
type Shared struct {
	mu      sync.Mutex
	read    time.Time
	last    runtime.Usage
	charged store.Charge
}

// New marks the sandbox as new: its counters are zero.
func (s *Shared) New() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.read = runtime.Usage{}, time.Now()
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

// Now reads the counters. If that fails, it returns the last reading.
func (s *Shared) Now(ctx context.Context, sandbox runtime.Sandbox) runtime.Usage {
	usage, err := sandbox.Usage(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.last, s.read = usage, time.Now()
	}
	return s.last
}

// Charge returns the usage in the last reading for which the owner was not charged yet. own is the CPU seconds of a run that has ended in
// it. They count while the sandbox has no figure of its own.
func (s *Shared) Charge(n *Network, own float64) (c store.Charge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.CPUSeconds = own; s.last.CPU != nil {
		c.CPUSeconds = max(0, s.last.CPU.Seconds()-s.charged.CPUSeconds)
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
