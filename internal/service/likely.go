package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Likely returns what the sandboxes of callers who ask for nothing special are made from by the default runtime, without
// an id: that of a run and, where programs in the workspace may be executed, that of a session. They can be made ahead.
func (s *Service) Likely(ctx context.Context) ([]runtime.Spec, error) {
	var specs []runtime.Spec
	for _, exec := range []bool{false, true} {
		p := &plan{exec: exec, request: belljar.RunRequest{RunSpec: belljar.RunSpec{BaseImage: s.opts.DefaultImage}}}
		if err := s.place(ctx, belljar.Caller{}, p, ""); err != nil {
			return nil, err
		}
		if p.fetch != "" {
			return nil, nil // nothing can be made of it yet
		}
		p.bind()
		specs = append(specs, p.spec("", s.opts.Lifetime))
	}
	return specs, nil
}

// LivingSessions is how many sessions there are on this node, of all callers.
func (s *Service) LivingSessions() int { return len(s.sessions.all()) }
