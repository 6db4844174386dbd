package service

import (
	"context"
	"time"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// provision makes the run's sandbox and fills its workspace, within the startup timeout; in a session it is the
// session's. The sandbox is returned with an error too, if there is one.
func (s *carrier) provision(r *run, p *plan, begin time.Time) (*box.Box, error) {
	ctx, cancel := startup(r, p, begin)
	defer cancel()
	var j *box.Box
	var err error
	if p.session != nil {
		if j, err = p.session.acquire(ctx); err != nil {
			p.session.stopRun(r)
			return nil, err
		}
		r.know(p.session.image())
	} else {
		j, err = s.boxes.Make(ctx, box.Order{
			ID: r.id, Caller: r.caller, Placement: &p.Placement, Know: r.know,
			Made: func(sandbox runtime.Sandbox) { s.memory.Hold(r.id, sandbox, func(why error) { r.stop(why) }) },
		})
		if err != nil {
			return j, err
		}
	}
	return j, j.Upload(ctx, p.request.Upload, p.files)
}

// startup bounds everything that happens before the command runs.
func startup(r *run, p *plan, begin time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(r.ctx, begin.Add(seconds(p.Limits.StartupTimeoutSec)), fault.ErrStartupTimeout)
}
