package daemon

import (
	"context"

	"github.com/belljar/belljar/internal/api/thread"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/event/metric"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/pool"
)

// openPool puts a pool of ready sandboxes in front of a runtime that supports it, unless the operator disables pools.
func (d *server) openPool(cfg *config.Config, rt runtime.Runtime) (runtime.Runtime, error) {
	if _, ok := rt.(runtime.Claimer); !ok || cfg.PoolSize == 0 || cfg.PoolMax == 0 || !cfg.EnableExecution {
		return rt, nil
	}
	p, err := pool.New(rt, pool.Options{Size: cfg.PoolSize, Max: cfg.PoolMax, Idle: cfg.PoolIdle, Logger: d.log})
	if err != nil {
		return nil, err
	}
	d.pools = append(d.pools, p)
	d.closers = append(d.closers, p.Close)
	return p, nil
}

// warm fills the pools in the background with the sandboxes that callers are likely to request.
func (d *server) warm(ctx context.Context, counter *metric.Counter) {
	for _, p := range d.pools {
		counter.WatchPool(p.Name(), func() metric.Pool { return metric.Pool(p.Stats()) })
	}
	d.fill(ctx)
}

// fill fills the pools whose images are present.
func (d *server) fill(ctx context.Context) {
	likely, specs, err := d.service.DefaultSpecs(ctx)
	if err != nil {
		d.log.Warn("no sandbox is made in advance", "err", err)
	}
	for _, p := range d.pools {
		if p.Name() == likely {
			p.Warm(specs...)
		}
	}
}

// node returns the server's load, for the thread door.
func (d *server) node() thread.Node {
	n := thread.Node{ActiveSessions: d.service.LivingSessions()}
	for _, p := range d.pools {
		now := p.Stats()
		n.PoolSize += now.Size
		n.PoolAvailable += now.Ready
	}
	return n
}
