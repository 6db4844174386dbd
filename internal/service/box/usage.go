package box

import (
	"context"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// fresh is how long what a sandbox has counted is taken as still true when a command begins: reading costs more than many a
// command.
const fresh = time.Second

// Hits is what a sandbox that several runs share has counted of processes killed for lack of memory and forks refused, as
// last read. The zero value is read long ago.
type Hits struct {
	mu   sync.Mutex
	read time.Time
	last runtime.Usage
}

// New marks the sandbox as new: nothing has run in it, and it has counted nothing.
func (h *Hits) New() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.read = runtime.Usage{}, time.Now()
}

// Before is the count when a command begins: one that was read a moment ago will do.
func (h *Hits) Before(ctx context.Context, sandbox runtime.Sandbox) runtime.Usage {
	h.mu.Lock()
	last, recent := h.last, time.Since(h.read) < fresh
	h.mu.Unlock()
	if recent {
		return last
	}
	return h.Now(ctx, sandbox)
}

// Now reads the count; without an answer it is the last one.
func (h *Hits) Now(ctx context.Context, sandbox runtime.Sandbox) runtime.Usage {
	usage, err := sandbox.Usage(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.last, h.read = usage, time.Now()
	}
	return h.last
}

// dying bounds asking a sandbox whose agent is gone why: that comes a moment later, which on a machine that has much to do is
// long, and makes the difference between out of memory and no reason at all.
const dying = 10 * time.Second

// ExitOf is how a sandbox ended whose agent is gone, or nil if that is not known.
func ExitOf(ctx context.Context, sandbox runtime.Sandbox) *runtime.Exit {
	ctx, cancel := context.WithTimeout(ctx, dying)
	defer cancel()
	exit, err := sandbox.Wait(ctx)
	if err != nil {
		return nil
	}
	return &exit
}
