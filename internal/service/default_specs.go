package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
)

// DefaultSpecs returns the specs, without an id, of the sandboxes that requests with default values get, and the runtime that makes them: the
// sandbox of a run and, with programs in the workspace that may be executed, that of a session. They can be made ahead.
func (s *Service) DefaultSpecs(ctx context.Context) (host string, specs []runtime.Spec, err error) {
	for _, exec := range []bool{false, true} {
		p, err := s.rules.Place(ctx, belljar.Caller{}, admission.Request{Image: s.opts.DefaultImage, Exec: exec})
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
func (s *Service) LivingSessions() int { return s.sessions.Count() }

// Room refuses, with [belljar.CodeDiskFull], a request of a user that needs disk space while the disk is nearly full. Doors that keep
// files call it.
func (s *Service) Room(ctx context.Context, user string) error { return s.accounts.Room(ctx, user) }
