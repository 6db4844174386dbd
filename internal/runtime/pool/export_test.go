package pool

import (
	"context"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// Await warms the pool for a spec and returns when a sandbox is ready for it; false if none can be made.
func (p *Pool) Await(ctx context.Context, spec runtime.Spec) bool {
	p.mu.Lock()
	p.pause = time.Time{} // a fault made by a test is not the host's
	for _, k := range p.kinds {
		k.pause, k.tries = time.Time{}, 0
	}
	failures := p.stats.Failures
	p.mu.Unlock()
	p.Warm(spec)
	for ctx.Err() == nil {
		p.mu.Lock()
		k := p.kinds[keyOf(p.claimer.Blank(spec))]
		ready, failed := k != nil && len(k.ready) > 0, p.stats.Failures > failures
		p.mu.Unlock()
		if ready || failed {
			return ready
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return false
}

// Park makes a sandbox's agent start the interpreter of a command, which then waits.
func Park(ctx context.Context, box runtime.Sandbox, e wire.Exec) error {
	q, err := ask(ctx, box, wire.Request{Op: wire.OpPark, Exec: &e})
	if err != nil {
		return err
	}
	defer q.close()
	return q.done()
}
