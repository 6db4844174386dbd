package run

import (
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/git"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/snapshot"
)

// provision makes the run's sandbox and fills its workspace, within the startup timeout. In a session it uses
// the session's. The sandbox is returned even with an error, if there is one.
func (s *runner) provision(r *Run, p *plan, begin time.Time, tree *git.Tree, packages *install.Ready, from *snapshot.Source) (*box.Box, error) {
	ctx, cancel := startup(r, p, begin)
	defer cancel()
	var b *box.Box
	var err error
	if p.session != nil {
		if b, err = p.session.Acquire(ctx); err != nil {
			if why := p.session.StopCause(); why != nil {
				r.stop(why) // the session's end stopped its other runs in the same way
			}
			return nil, err
		}
		r.setImage(p.session.Placement().Image)
		r.setFiles(p.session.Snapshot().SnapshotDigest, "")
	} else {
		if p.LacksGoCache {
			s.rules.GoCache(p.Image, r.owner, true) // for later runs
		}
		order := box.Order{
			ID: r.id, Caller: r.caller, Placement: &p.Placement, OnImage: r.setImage,
			Made: func(sandbox runtime.Sandbox) {
				packages.Until(s.closed, sandbox)
				s.memory.Hold(r.id, sandbox, func(why error) { r.stop(why) })
			},
			Egress: func(e egress.Event) { s.recordEgress(r, e) },
		}
		b, err = s.boxes.Make(ctx, order)
		if b == nil && p.Below.Dir != "" && errors.Is(err, errors.ErrUnsupported) { // the runtime detects that only now
			from.On(&p.Placement, nil)
			r.setFiles(from.Digest(), "")
			b, err = s.boxes.Make(ctx, order)
		}
		if b == nil {
			packages.Release()
		}
		if err != nil {
			return b, err
		}
		if err := from.Load(ctx, b, p.Workspace, p.Below.Dir != ""); err != nil {
			return b, err
		}
		if from != nil && p.Below.Dir == "" {
			if err := b.Upload(ctx, nil, p.Placement.Files); err != nil { // they overwrite the others
				return b, err
			}
		}
	}
	if err := tree.Unpack(ctx, b); err != nil {
		return b, err
	}
	if err := b.Upload(ctx, p.request.Upload, p.files); err != nil {
		return b, err
	}
	s.recordFiles(p.Host.Name(), p.request.Files)
	return b, nil
}

// startup bounds all steps before the command runs.
func startup(r *Run, p *plan, begin time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(r.ctx, begin.Add(clock.Seconds(p.Limits.StartupTimeoutSec)), fault.ErrStartupTimeout)
}
