package box

import (
	"context"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/store"
)

// fresh is how long what a sandbox has counted is taken as still true when a command begins: reading costs more than many a
// command.
const fresh = time.Second

// Shared is what a sandbox that several runs share has counted, as last read, and what of it its owner was charged for. The zero value is
// read long ago.
type Shared struct {
	mu      sync.Mutex
	read    time.Time
	last    runtime.Usage
	charged store.Charge
}

// New marks the sandbox as new: nothing has run in it, and it has counted nothing.
func (s *Shared) New() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.read = runtime.Usage{}, time.Now()
}

// Before is the count when a command begins: one that was read a moment ago will do.
func (s *Shared) Before(ctx context.Context, sandbox runtime.Sandbox) runtime.Usage {
	s.mu.Lock()
	last, recent := s.last, time.Since(s.read) < fresh
	s.mu.Unlock()
	if recent {
		return last
	}
	return s.Now(ctx, sandbox)
}

// Now reads the count; without an answer it is the last one.
func (s *Shared) Now(ctx context.Context, sandbox runtime.Sandbox) runtime.Usage {
	usage, err := sandbox.Usage(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.last, s.read = usage, time.Now()
	}
	return s.last
}

// Charge returns what the sandbox has used by the last reading, and its owner was not charged for. own is the CPU seconds of a run that has
// ended in it, which count while the sandbox has no figure of its own.
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

// Restore takes a charge back that is not on record.
func (s *Shared) Restore(c store.Charge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charged.CPUSeconds -= c.CPUSeconds
	s.charged.EgressBytes -= c.EgressBytes
}

// Dying bounds asking a sandbox whose agent is gone why: that comes a moment later, which on a machine that has much to do is
// long, and makes the difference between out of memory and no reason at all.
const Dying = 10 * time.Second

// ExitOf is how a sandbox ended whose agent is gone, or nil if that is not known.
func ExitOf(ctx context.Context, sandbox runtime.Sandbox) *runtime.Exit {
	ctx, cancel := context.WithTimeout(ctx, Dying)
	defer cancel()
	exit, err := sandbox.Wait(ctx)
	if err != nil {
		return nil
	}
	return &exit
}
