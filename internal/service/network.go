package service

import (
	"context"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/install"
)

// CheckNetwork reports how a URL would be handled.
func (v node) CheckNetwork(ctx context.Context, q belljar.NetworkQuery) (belljar.NetworkCheck, error) {
	policy, broker, err := v.service.policyOf(ctx, v.caller, q)
	if err != nil {
		return belljar.NetworkCheck{}, v.service.refused(v.caller, "check a URL", err)
	}
	if policy != nil {
		return egress.Check(ctx, *policy, broker, v.service.opts.Egress.Resolver, q.URL), nil
	}
	check := egress.Check(ctx, v.service.rules.Egress.Nothing(), nil, v.service.opts.Egress.Resolver, q.URL)
	if check.Reason == string(egress.NoMatch) {
		check.Message += ": network_policy is " + belljar.NetworkDenyAll
	}
	return check, nil
}

// policyOf returns the network policy of a query, nil for a sandbox without a network, and the brokered secrets.
func (s *Service) policyOf(ctx context.Context, caller belljar.Caller, q belljar.NetworkQuery) (*egress.Policy, *egress.Broker, error) {
	if err := q.Validate(); err != nil {
		return nil, nil, err
	}
	if q.SessionID != "" {
		x, err := s.livingSession(caller, q.SessionID)
		if err != nil {
			return nil, nil, err
		}
		p := x.Placement()
		if p.Broker == nil {
			return p.Egress, nil, nil
		}
		return p.Egress, p.Broker.Egress, nil
	}
	_, policy, err := s.rules.Egress.Network(caller, "", belljar.NetworkSpec{NetworkPolicy: q.NetworkPolicy, Egress: q.Egress})
	if err != nil || len(q.Egress.Presets) == 0 {
		return policy, nil, err
	}
	err = s.withPresets(ctx, caller, belljar.RunSpec{NetworkPolicy: q.NetworkPolicy, Egress: q.Egress}, func(ctx context.Context, o install.Order) error {
		o.Placement.Egress = policy
		_, err := s.packages.Presets(ctx, o)
		policy = o.Placement.Egress
		return err
	})
	return policy, nil, err
}

// NetworkPresets returns the expansion of each preset in an image.
func (v node) NetworkPresets(ctx context.Context, image string) ([]belljar.NetworkPreset, error) {
	s := v.service
	list := make([]belljar.NetworkPreset, len(belljar.EgressPresets()))
	spec := belljar.RunSpec{BaseImage: image, NetworkPolicy: belljar.NetworkAllowlist}
	at := map[string]int{}
	for i, name := range belljar.EgressPresets() {
		list[i].Name, list[i].Enabled = name, slices.Contains(s.opts.Policy.EgressPresets, name)
		if why := s.rules.Egress.Preset(name); why != nil {
			list[i].Reason, list[i].Hint = why.Message, why.Hint
			continue
		}
		at[name] = i
		spec.Egress.Presets = append(spec.Egress.Presets, name)
	}
	if len(at) == 0 {
		return list, nil
	}
	err := s.withPresets(ctx, v.caller, spec, func(ctx context.Context, o install.Order) error {
		shown, err := s.packages.Show(ctx, o)
		for _, p := range shown {
			list[at[p.Name]] = p
		}
		return err
	})
	if err != nil {
		return nil, s.refused(v.caller, "show the presets", err)
	}
	return list, nil
}

// withPresets runs work for presets outside a run or session: it may query the tools of an image, in a sandbox for which memory is reserved.
func (s *Service) withPresets(ctx context.Context, caller belljar.Caller, spec belljar.RunSpec, work func(context.Context, install.Order) error) error {
	if err := s.rules.Enabled(); err != nil {
		return err
	}
	p, err := s.rules.Place(ctx, caller, admission.RequestOfRun(spec))
	if err != nil {
		return err
	}
	if err := s.rules.Unasked(caller, &p); err != nil {
		return err
	}
	quota, err := s.accounts.Quota(ctx, caller.ID)
	if err != nil {
		return err
	}
	id := belljar.NewID()
	if err := s.memory.Claim(id, caller.ID, &p, quota); err != nil {
		return err
	}
	defer s.memory.Drop(id)
	if ok, _ := s.memory.Place(id, false); !ok {
		return s.memory.Full()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.work.Closing(), func() { stop(fault.ErrShutdown) })()
	if err := s.boxes.Fetch(ctx, caller, &p); err != nil {
		return err
	}
	return work(ctx, install.Order{
		Caller: caller, Egress: spec.Egress, Placement: &p,
		Made: func(sandbox runtime.Sandbox) { s.memory.Hold(id, sandbox, func(why error) { stop(why) }) },
	})
}

// countEgress counts the decisions of all gates.
func (s *Service) countEgress(e egress.Event) {
	kind := "denied"
	if e.Allowed {
		kind = "allowed"
	}
	s.emit(event.Event{Name: event.EgressDecided, Kind: kind, Reason: string(e.Reason)})
	if e.BytesIn > 0 {
		s.emit(event.Event{Name: event.EgressBytes, Kind: "in", Count: e.BytesIn})
	}
	if e.BytesOut > 0 {
		s.emit(event.Event{Name: event.EgressBytes, Kind: "out", Count: e.BytesOut})
	}
}
