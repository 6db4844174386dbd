package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
)

// DefaultSpecs returns the specs, without an id, of the sandboxes for requests with default values, and the runtime that makes them: the
// sandbox of a run and, if the workspace may contain executable programs, that of a session. The pool can make them in advance.
func (s *Service) DefaultSpecs(ctx context.Context) (host string, specs []runtime.Spec, err error) {
	for _, exec := range []bool{false, true} {
		p, err := s.rules.Place(ctx, belljar.Caller{}, admission.Request{Image: s.opts.DefaultImage, Exec: exec})
		if err != nil {
			return "", nil, err
		}
		if p.Fetch != "" {
			return "", nil, nil // the pool cannot make any yet
		}
		host, specs = p.Host.Name(), append(specs, p.Spec("", s.opts.Lifetime))
	}
	return host, specs, nil
}

// LivingSessions returns the number of live sessions on this node, of all callers.
func (s *Service) LivingSessions() int { return s.sessions.Count() }

// Room refuses, with [belljar.CodeDiskFull], a user's request for disk space while the disk is nearly full. APIs that store files call it.
func (s *Service) Room(ctx context.Context, user string) error { return s.accounts.Room(ctx, user) }
