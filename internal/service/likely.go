package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
)

// Likely returns what the sandboxes of callers who ask for nothing special are made from, without an id: that of a run and,
// where programs in the workspace may be executed, that of a session; and the name of the runtime that makes them. They
// can be made ahead.
func (s *Service) Likely(ctx context.Context) (host string, specs []runtime.Spec, err error) {
	for _, exec := range []bool{false, true} {
		p, err := s.rules.Place(ctx, belljar.Caller{}, admission.Ask{Image: s.opts.DefaultImage, Exec: exec})
		if err != nil {
			return "", nil, err
		}
		if p.Fetch != "" {
			return "", nil, nil // nothing can be made of it yet
		}
		host, specs = p.Host.Name(), append(specs, p.Spec("", s.opts.Lifetime))
	}
	return host, specs, nil
}

// LivingSessions is how many sessions there are on this node, of all callers.
func (s *Service) LivingSessions() int { return len(s.sessions.all()) }
