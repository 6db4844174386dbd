package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/file"
)

// sessionUse is a use of a session's sandbox, as those who work in it see it.
type sessionUse struct {
	box     *box.Box
	session *session
}

var _ file.Workspace = sessionUse{}

// useSession counts a use of a session that caller may see.
func (s *Service) useSession(ctx context.Context, caller belljar.Caller, id string) (file.Workspace, error) {
	x, err := s.session(caller, id)
	if err != nil {
		return nil, err
	}
	j, err := x.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return sessionUse{j, x}, nil
}

// Box is the session's sandbox with its agent.
func (u sessionUse) Box() *box.Box { return u.box }

// Context ends when the session does.
func (u sessionUse) Context() context.Context { return u.session.ctx }

// Session is the session as it stands.
func (u sessionUse) Session() belljar.Session { return u.session.snapshot() }

// Limits are those of the session's sandbox.
func (u sessionUse) Limits() belljar.Limits { return u.session.place.Limits }

// KeepAlive notes a sign of life of the session.
func (u sessionUse) KeepAlive() { u.session.stir() }

// Release gives the use back.
func (u sessionUse) Release() { u.session.release() }
