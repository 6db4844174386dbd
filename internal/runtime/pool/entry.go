package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// entry is a ready sandbox of the pool.
type entry struct {
	id   string
	kind *kind
	box  runtime.Sandbox
	born time.Time
	free context.CancelFunc // ends its watch
}

// watch renews an entry's lease, and drops the entry when it has ended or no longer answers.
func (p *Pool) watch(ctx context.Context, e *entry) {
	for {
		tick, cancel := context.WithTimeout(ctx, p.opts.Lease/3)
		exit, err := e.box.Wait(tick)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			p.log.Warn("a ready sandbox has ended", "sandbox", e.id, "reason", exit.Reason, "detail", exit.Detail)
			p.drop(e, dropDied)
			return
		}
		ask, cancel := context.WithTimeout(ctx, p.opts.ClaimTimeout)
		err = ping(ask, e.box)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.log.Warn("a ready sandbox does not answer", "sandbox", e.id, "err", err)
			p.drop(e, dropBroken)
			return
		}
	}
}

// drop destroys an entry, unless a caller has taken it.
func (p *Pool) drop(e *entry, why string) {
	p.mu.Lock()
	had := e.kind.remove(e)
	if had {
		e.free()
		p.stats.Drops[why]++
		p.notify()
	}
	p.mu.Unlock()
	if had {
		p.destroy(e)
	}
}

// destroy destroys an entry. Only the pool knows of the entry: if that fails, it is retried after the next
// successful birth.
func (p *Pool) destroy(e *entry) {
	if err := e.box.Destroy(context.Background()); err != nil {
		p.log.Error("a ready sandbox could not be destroyed", "sandbox", e.id, "err", err)
		p.mu.Lock()
		p.left = append(p.left, e)
		p.mu.Unlock()
	}
}

// clear retries the destructions that failed. The caller holds mu.
func (p *Pool) clear() {
	if p.closed {
		return
	}
	for _, e := range p.left {
		p.work.Go(func() { p.destroy(e) })
	}
	p.left = nil
}

// destroyEach destroys several entries concurrently.
func (p *Pool) destroyEach(list []*entry) {
	var all sync.WaitGroup
	for _, e := range list {
		all.Go(func() { p.destroy(e) })
	}
	all.Wait()
}

// destroyAll destroys entries that are no longer ready.
func destroyAll(list []*entry) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, e := range list {
		all.Go(func() { errs[i] = e.box.Destroy(context.Background()) })
	}
	all.Wait()
	return errors.Join(errs...)
}
