package run

import (
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/store"
)

// install resolves the presets of a run with its own sandbox, and prepares its packages. The run's startup timeout begins afterwards,
// except for the pull of its image.
func (c *execution) install() (*install.Ready, error) {
	s, r, p := c.runner, c.run, c.plan
	if p.session != nil || p.request.Packages.IsZero() && len(p.request.Egress.Presets) == 0 {
		return nil, nil
	}
	ctx, cancel := startup(r, p, time.Now())
	err := s.boxes.Fetch(ctx, r.caller, &p.Placement)
	cancel()
	if err != nil {
		return nil, err
	}
	order := install.Order{
		Caller: r.caller, Trust: p.request.TrustLevel, Packages: p.request.Packages, Egress: p.request.Egress, Placement: &p.Placement,
		Made:   func(sandbox runtime.Sandbox) { s.memory.Hold(r.id, sandbox, func(why error) { r.stop(why) }) },
		Record: func(e egress.Event) { s.recordEgress(r, e) },
		Charge: func(used store.Charge) {
			err := s.accounts.Users.Charge(context.WithoutCancel(r.ctx), r.owner, used, s.now())
			if err != nil {
				s.log.Warn("the usage of an installation cannot be recorded", "run_id", r.id, "err", err)
			}
		},
		Tell: func(tool, text string) {
			r.appendUnlessOver(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventPackages, Data: map[string]any{"tool": tool, "text": text}})
		},
	}
	presets, err := s.installer.Presets(r.ctx, order)
	if err != nil {
		return nil, err
	}
	if len(presets) > 0 {
		noted := belljar.EgressReport{Hosts: []belljar.EgressHost{}}
		if c.net.earlier != nil {
			noted = *c.net.earlier
		}
		noted.Presets = presets
		c.net.earlier = &noted
		c.reportEgress(&noted)
	}
	ready, err := s.installer.Ready(r.ctx, order)
	if err != nil {
		return nil, err
	}
	root := p.Image
	if ready == nil {
		r.setImage(root)
		return nil, nil
	}
	root.Layers = ready.Layers
	r.setImage(root)
	r.mu.Lock()
	r.state.Packages = &ready.Lock
	r.mu.Unlock()
	return ready, nil
}
