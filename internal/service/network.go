package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/event"
)

// CheckNetwork answers what would happen to a URL.
func (v node) CheckNetwork(ctx context.Context, q belljar.NetworkQuery) (belljar.NetworkCheck, error) {
	policy, broker, err := v.service.policyOf(v.caller, q)
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

// policyOf is the policy that a question is about, nil for a sandbox that may reach nothing, and the brokered secrets.
func (s *Service) policyOf(caller belljar.Caller, q belljar.NetworkQuery) (*egress.Policy, *egress.Broker, error) {
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
	return policy, nil, err
}

// countEgress counts what the gates of all sandboxes decide.
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
