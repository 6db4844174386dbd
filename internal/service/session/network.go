package session

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/git"
	"github.com/belljar/belljar/internal/service/install"
)

// Network is the network policy of a session.
type Network struct {
	of       *Session
	changing sync.Mutex // held during a change; taken before the session's locks
	unsent   bool       // a change failed after its record: the files of its presets may be missing
}

// Spec returns the policy in force: that of the session's request or of the last change, or else the server's current default.
func (n *Network) Spec() belljar.NetworkSpec {
	x := n.of
	x.mu.Lock()
	asked := belljar.NetworkSpec{NetworkPolicy: x.spec.NetworkPolicy, Egress: x.spec.Egress}
	x.mu.Unlock()
	spec, _, err := x.all.opts.Rules.Egress.Network(x.caller, x.spec.TrustLevel, asked)
	if err != nil {
		return belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist} // the server's rules no longer permit anything
	}
	return spec
}

// Set changes the policy, as far as the rules permit that without an approval. It records the change before it applies it, so that no
// restart widens a policy that was narrowed.
func (n *Network) Set(ctx context.Context, caller belljar.Caller, asked belljar.NetworkSpec) (belljar.NetworkSpec, error) {
	x := n.of
	n.changing.Lock()
	defer n.changing.Unlock()
	spec, policy, err := x.all.opts.Rules.Egress.Network(x.caller, x.spec.TrustLevel, asked)
	if err != nil {
		return spec, err
	}
	if err := x.all.opts.Rules.Approvals.Network(caller, n.Spec(), spec); err != nil {
		return spec, err
	}
	place := x.Placement()
	if policy != nil && place.Egress == nil { // as for a new session
		if err := x.all.opts.Accounts.CheckDay(ctx, x.caller.ID, true); err != nil {
			return spec, err
		}
	}
	place.Egress, place.Env, place.Files = policy, nil, nil
	if policy != nil {
		if err := admission.Relayed(&place); err != nil {
			return spec, err
		}
	}
	order := install.Order{Caller: x.caller, Trust: x.spec.TrustLevel, Egress: asked.Egress, Placement: &place}
	if !n.unsent { // else the files of all presets are needed
		order.Known = x.Snapshot().Presets
	}
	presets, err := x.all.opts.Packages.Presets(ctx, order)
	if err != nil {
		return spec, err
	}
	b, err := x.Acquire(ctx)
	if err != nil {
		return spec, err
	}
	defer x.Release()
	before := n.replace(reach{asked, place.Egress, place.Env, presets})
	if err := note(x); err != nil {
		n.replace(before)
		return spec, fault.Record("put the session's network on record", err)
	}
	state := x.Snapshot()
	x.all.opts.Record(event.Event{
		Name: event.SessionNetwork, Caller: caller, Session: &state, Runtime: state.Runtime, Kind: spec.NetworkPolicy,
	})
	if slices.ContainsFunc(asked.Egress.Presets, func(name string) bool { return !slices.Contains(before.spec.Egress.Presets, name) }) {
		n.unsent = true
	}
	if err := b.Network.Set(ctx, place.Egress); err != nil {
		return spec, err
	}
	if n.unsent {
		if err := b.Upload(ctx, nil, place.Files); err != nil {
			return spec, err
		}
		n.unsent = false
	}
	return spec, nil
}

// reach is the network state of a session.
type reach struct {
	spec    belljar.NetworkSpec
	policy  *egress.Policy
	env     map[string]string
	presets []belljar.NetworkPreset
}

// replace sets another network state, and returns the previous one.
func (n *Network) replace(to reach) (was reach) {
	x := n.of
	x.mu.Lock()
	defer x.mu.Unlock()
	was = reach{belljar.NetworkSpec{NetworkPolicy: x.spec.NetworkPolicy, Egress: x.spec.Egress}, x.place.Egress, x.place.Env, x.state.Presets}
	x.spec.NetworkPolicy, x.spec.Egress, x.place.Egress, x.place.Env, x.state.Presets = to.spec.NetworkPolicy, to.spec.Egress, to.policy, to.env, to.presets
	n.warn(to.policy)
	return was
}

// warn sets the warnings about rules that permit nothing, and keeps those about the clone. The caller holds the lock.
func (n *Network) warn(p *egress.Policy) {
	x := n.of
	clone := slices.DeleteFunc(slices.Clone(x.state.Warnings), func(s string) bool { return !strings.HasPrefix(s, git.Warning) })
	x.state.Warnings = append(admission.Uncovered(p), clone...)
}

// recordEgress records an event of the sandbox's gate unless exactly one run uses the sandbox.
func (n *Network) recordEgress(e egress.Event) {
	x := n.of
	state := x.Snapshot()
	out := box.EgressEvent(e)
	out.Caller, out.Session, out.Runtime = x.caller, &state, state.Runtime
	x.all.opts.Record(out)
}
