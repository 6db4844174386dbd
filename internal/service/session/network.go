package session

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// Network is what the session may reach: its request's network, or else the server's default as it is now.
func (x *Session) Network() belljar.NetworkSpec {
	x.mu.Lock()
	asked := belljar.NetworkSpec{NetworkPolicy: x.spec.NetworkPolicy, Egress: x.spec.Egress}
	x.mu.Unlock()
	spec, _, err := x.all.opts.Rules.Egress.Network(x.caller, x.spec.TrustLevel, asked)
	if err != nil {
		return belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist} // the server's rules allow nothing any longer
	}
	return spec
}

// SetNetwork changes what the session may reach, within the server's rules. The change is on record before it is in force, so that
// no restart widens what was narrowed.
func (x *Session) SetNetwork(ctx context.Context, asked belljar.NetworkSpec) (belljar.NetworkSpec, error) {
	x.networking.Lock()
	defer x.networking.Unlock()
	spec, policy, err := x.all.opts.Rules.Egress.Network(x.caller, x.spec.TrustLevel, asked)
	if err != nil {
		return spec, err
	}
	if place := x.Placement(); policy != nil {
		if err := admission.Relayed(&place); err != nil {
			return spec, err
		}
	}
	b, err := x.Acquire(ctx)
	if err != nil {
		return spec, err
	}
	defer x.Release()
	before, was := x.replaceNetwork(asked, policy)
	if err := x.recordNetwork(); err != nil {
		x.replaceNetwork(before, was)
		return spec, fault.Record("put the session's network on record", err)
	}
	if err := b.Network.Set(ctx, policy); err != nil {
		return spec, err
	}
	state := x.Snapshot()
	x.all.opts.Record(event.Event{
		Name: event.SessionNetwork, Caller: x.caller, Session: &state, Runtime: state.Runtime, Kind: spec.NetworkPolicy,
	})
	return spec, nil
}

// replaceNetwork notes another network, and returns the former.
func (x *Session) replaceNetwork(spec belljar.NetworkSpec, policy *egress.Policy) (before belljar.NetworkSpec, was *egress.Policy) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before, was = belljar.NetworkSpec{NetworkPolicy: x.spec.NetworkPolicy, Egress: x.spec.Egress}, x.place.Egress
	x.spec.NetworkPolicy, x.spec.Egress, x.place.Egress = spec.NetworkPolicy, spec.Egress, policy
	return before, was
}

// recordNetwork puts the session on record with its network.
func (x *Session) recordNetwork() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	return x.update()
}

// recordEgress records what the session's sandbox reached, or was denied, while not exactly one run used it.
func (x *Session) recordEgress(e egress.Event) {
	state := x.Snapshot()
	out := box.EgressEvent(e)
	out.Caller, out.Session, out.Runtime = x.caller, &state, state.Runtime
	x.all.opts.Record(out)
}
