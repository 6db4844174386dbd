package service

import (
	"context"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/file"
	"github.com/belljar/belljar/internal/service/kernel"
	"github.com/belljar/belljar/internal/service/port"
	"github.com/belljar/belljar/internal/service/session"
	"github.com/belljar/belljar/internal/service/terminal"
)

// useSession counts a use of a session that the caller may see.
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

// useTerminals counts a use of a session in which the caller may open a terminal.
func (s *Service) useTerminals(ctx context.Context, caller belljar.Caller, id string) (terminal.Session, func(), error) {
	if err := mayExecute(ctx, s, caller, id); err != nil {
		return nil, nil, err
	}
	return useWhileAlive(ctx, s, caller, id)
}

// mayExecute refuses callers that may not execute programs in a session now.
func mayExecute(ctx context.Context, s *Service, caller belljar.Caller, id string) error {
	x, err := s.livingSession(caller, id)
	if err == nil {
		err = s.rules.Enabled() // the session may be from a previous server that permitted execution
	}
	if err != nil {
		return err
	}
	return s.accounts.CheckDay(ctx, caller.ID, x.Network.Spec().NetworkPolicy == belljar.NetworkAllowlist)
}

// usePorts counts a use of a session whose ports the caller may connect to.
func (s *Service) usePorts(ctx context.Context, caller belljar.Caller, id string) (port.Session, func(), error) {
	return useWhileAlive(ctx, s, caller, id)
}

// checkSession returns the function that reports why a caller may not manage what belongs to a session. It does not wake the session.
func checkSession(s *Service) func(caller belljar.Caller, id string) error {
	return func(caller belljar.Caller, id string) error {
		_, err := unended(s, caller, id)
		return err
	}
}

// useContexts returns the function that counts a use of a session in which a caller may see and end contexts and, with execute, run code.
func useContexts(s *Service) func(ctx context.Context, caller belljar.Caller, id string, execute bool) (kernel.Session, func(), error) {
	return func(ctx context.Context, caller belljar.Caller, id string, execute bool) (kernel.Session, func(), error) {
		if execute {
			if err := mayExecute(ctx, s, caller, id); err != nil {
				return nil, nil, err
			}
		}
		return useWhileAlive(ctx, s, caller, id)
	}
}

// useInside counts a use of a session whose sandbox is as strong as the caller's current policy requires.
func useInside(ctx context.Context, s *Service, caller belljar.Caller, id string) (u session.Use, err error) {
	x, err := s.livingSession(caller, id)
	if err == nil {
		err = x.CheckIsolation(caller, admission.Request{})
	}
	if err == nil {
		u, err = x.Use(ctx)
	}
	return u, err
}

// useWhileAlive is useInside until release is called or the session ends. The end does not wait for the session's agent, nor for a program
// that the agent waits for.
func useWhileAlive(ctx context.Context, s *Service, caller belljar.Caller, id string) (u session.Use, release func(), err error) {
	if u, err = useInside(ctx, s, caller, id); err != nil {
		return u, nil, err
	}
	once := sync.OnceFunc(u.Release)
	unhook := context.AfterFunc(u.Context(), once)
	return u, func() {
		unhook()
		once()
	}, nil
}

// living reports whether a session that the caller may see is live.
func (s *Service) living(ctx context.Context, caller belljar.Caller, id string) (bool, error) {
	x, _, err := s.findSession(ctx, caller, id)
	return x != nil, err
}
