package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/file"
	"github.com/belljar/belljar/internal/service/kernel"
	"github.com/belljar/belljar/internal/service/port"
	"github.com/belljar/belljar/internal/service/terminal"
)

// useSession counts a use of a session that caller may see.
func (s *Service) useSession(ctx context.Context, caller belljar.Caller, id string) (file.Workspace, error) {
	x, err := s.livingSession(caller, id)
	if err != nil {
		return nil, err
	}
	u, err := x.Use(ctx)
	if err != nil {
		return nil, err
	}
	return u, nil
}

// useTerminals counts a use of a session in which caller may open a terminal.
func (s *Service) useTerminals(ctx context.Context, caller belljar.Caller, id string) (terminal.Session, func(), error) {
	x, err := s.livingSession(caller, id)
	if err == nil {
		err = x.CheckIsolation(caller, admission.Request{})
	}
	if err != nil {
		return nil, nil, err
	}
	u, err := x.Use(ctx)
	if err != nil {
		return nil, nil, err
	}
	return u, u.Release, nil
}

// usePorts counts a use of a session whose ports caller may connect to.
func (s *Service) usePorts(ctx context.Context, caller belljar.Caller, id string) (port.Session, func(), error) {
	x, release, err := s.useTerminals(ctx, caller, id)
	if err != nil {
		return nil, nil, err
	}
	return x.(port.Session), release, nil
}

// useContexts returns what counts a use of a session in which a caller may run code.
func useContexts(s *Service) func(ctx context.Context, caller belljar.Caller, id string) (kernel.Session, func(), error) {
	return func(ctx context.Context, caller belljar.Caller, id string) (kernel.Session, func(), error) {
		x, release, err := s.useTerminals(ctx, caller, id)
		if err != nil {
			return nil, nil, err
		}
		return x.(kernel.Session), release, nil
	}
}

// living reports whether a session that caller may see is alive.
func (s *Service) living(ctx context.Context, caller belljar.Caller, id string) (bool, error) {
	x, _, err := s.findSession(ctx, caller, id)
	return x != nil, err
}
