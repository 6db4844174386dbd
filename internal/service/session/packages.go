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
	ready := copied(x, place.Image)
	if ready == nil {
		ready, err = s.opts.Packages.Ready(ctx, order)
	}
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

// copied returns the packages of the session that x copies: those that it has, not those that the index has now. It returns nil without
// packages, or if the image's name refers to another image now.
func copied(x *Session, image runtime.Root) *install.Ready {
	if x.from == nil || x.from.packages == nil || x.from.image.Ref != image.Ref || x.from.image.Digest != image.Digest {
		return nil
	}
	ready := x.all.opts.Packages.Hold(x.from.image.Layers)
	ready.Lock = *x.from.packages
	return ready
}
