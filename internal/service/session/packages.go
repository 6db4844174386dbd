package session

import (
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/store"
)

// preparePackages resolves the presets of a session, and prepares its packages. The startup timeout begins afterwards, except for the pull of its image.
func preparePackages(ctx context.Context, x *Session, limit time.Duration) (*install.Ready, error) {
	s := x.all
	if x.spec.Packages.IsZero() && len(x.spec.Egress.Presets) == 0 {
		return nil, nil
	}
	place := x.Placement()
	fetching, cancel := context.WithTimeoutCause(ctx, limit, fault.ErrStartupTimeout)
	err := s.opts.Boxes.Fetch(fetching, x.caller, &place)
	cancel()
	if err != nil {
		return nil, err
	}
	order := install.Order{
		Caller: x.caller, Trust: x.spec.TrustLevel, Packages: x.spec.Packages, Egress: x.spec.Egress, Placement: &place,
		Made:   func(sandbox runtime.Sandbox) { s.opts.Memory.Hold(x.id, sandbox, x.endForMemory) },
		Record: x.Network.recordEgress,
		Charge: func(used store.Charge) { charge(ctx, x, used) },
	}
	presets, err := s.opts.Packages.Presets(ctx, order)
	if err != nil {
		return nil, err
	}
	ready, err := s.opts.Packages.Ready(ctx, order)
	if err != nil {
		return nil, err
	}
	root := place.Image
	if ready != nil {
		root.Layers = ready.Layers
	}
	x.setImage(root)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.place.Fetch, x.place.Egress, x.place.Env, x.place.Files = "", place.Egress, place.Env, place.Files
	x.state.Presets = presets
	x.Network.warn(place.Egress)
	if ready != nil {
		x.state.Packages = &belljar.PackageLock{Pip: ready.Lock.Pip, Npm: ready.Lock.Npm}
	}
	return ready, nil
}
