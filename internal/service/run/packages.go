package run

import (
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/install"
)

// install makes the packages of a run's own sandbox ready. Its time to start begins afterwards, but for that of fetching its image.
func (s *runner) install(r *Run, p *plan) (*install.Ready, error) {
	if p.session != nil || p.request.Packages.IsZero() {
		return nil, nil
	}
	ctx, cancel := startup(r, p, time.Now())
	err := s.boxes.Fetch(ctx, r.caller, &p.Placement)
	cancel()
	if err != nil {
		return nil, err
	}
	ready, err := s.installer.Ready(r.ctx, install.Order{
		Caller: r.caller, Trust: p.request.TrustLevel, Packages: p.request.Packages, Egress: p.request.Egress, Placement: &p.Placement,
		Made:   func(sandbox runtime.Sandbox) { s.memory.Hold(r.id, sandbox, func(why error) { r.stop(why) }) },
		Record: func(e egress.Event) { s.recordEgress(r, e) },
		Tell: func(tool, text string) {
			r.appendUnlessOver(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventPackages, Data: map[string]any{"tool": tool, "text": text}})
		},
	})
	if err != nil {
		return nil, err
	}
	root := p.Image
	root.Layers = ready.Layers
	r.setImage(root)
	r.mu.Lock()
	r.state.Packages = &ready.Lock
	r.mu.Unlock()
	return ready, nil
}
