package service

import (
	"context"
	"time"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// provision makes the run's sandbox and fills its workspace, within the startup timeout; in a session it is the
// session's. The sandbox is returned with an error too, if there is one.
func (s *Service) provision(r *run, p *plan, begin time.Time) (*box.Box, error) {
	ctx, cancel := startup(r, p, begin)
	defer cancel()
	if p.session != nil {
		j, err := p.session.acquire(ctx)
		if err != nil {
			p.session.stopRun(r)
			return nil, err
		}
		r.know(p.session.image())
		return j, j.Upload(ctx, p.request.Upload, p.files)
	}
	sandbox, err := s.makeBox(ctx, r, r.caller, p, r.know)
	if err != nil {
		return nil, err
	}
	s.node.hold(r.id, sandbox, func(why error) { r.stop(why) })
	j, err := box.Meet(ctx, sandbox, p.caps, p.image)
	if err != nil {
		return j, err
	}
	if p.exec {
		if err := j.Furnish(ctx); err != nil {
			return j, err
		}
	}
	return j, j.Upload(ctx, p.request.Upload, p.files)
}

// startup bounds everything that happens before the command runs.
func startup(r *run, p *plan, begin time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(r.ctx, begin.Add(seconds(p.limits.StartupTimeoutSec)), errStartupTimeout)
}

// create makes the sandbox, but does not wait for a runtime that is slow to give up: what it still returns is
// destroyed behind the answer.
func (s *Service) create(ctx context.Context, r *run, p *plan) (runtime.Sandbox, error) {
	type creation struct {
		box runtime.Sandbox
		err error
	}
	made := make(chan creation, 1)
	go func() {
		spec := p.spec(r.id, s.opts.Lifetime)
		spec.Lease = s.opts.Lease
		box, err := p.host.Create(ctx, spec)
		made <- creation{box, err}
	}()
	select {
	case c := <-made:
		if c.err != nil && ctx.Err() == nil {
			c.err = p.host.explain(ctx, c.err)
		}
		if c.err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return c.box, c.err
	case <-ctx.Done():
		s.work.Go(func() {
			if c := <-made; c.err == nil {
				s.destroy(r.id, c.box)
			}
		})
		return nil, context.Cause(ctx)
	}
}
