package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/file"
	"github.com/belljar/belljar/internal/service/terminal"
)

// sessionUse is a use of a session's sandbox, as those who work in it see it.
type sessionUse struct {
	box     *box.Box
	session *session
}

var (
	_ file.Workspace   = sessionUse{}
	_ terminal.Session = sessionUse{}
)

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

// terminalSession counts a use of a session in which caller may open a terminal.
func (s *Service) terminalSession(ctx context.Context, caller belljar.Caller, id string) (terminal.Session, func(), error) {
	x, err := s.session(caller, id)
	if err == nil {
		err = s.strongEnough(caller, x, admission.Ask{})
	}
	if err != nil {
		return nil, nil, err
	}
	j, err := x.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	return sessionUse{j, x}, x.release, nil
}

// living reports whether a session that caller may see is alive.
func (s *Service) living(ctx context.Context, caller belljar.Caller, id string) (bool, error) {
	x, _, err := s.findSession(ctx, caller, id)
	return x != nil, err
}

// Box is the session's sandbox with its agent.
func (u sessionUse) Box() *box.Box { return u.box }

// Context ends when the session does.
func (u sessionUse) Context() context.Context { return u.session.ctx }

// Session is the session as it stands.
func (u sessionUse) Session() belljar.Session { return u.session.snapshot() }

// Limits are those of the session's sandbox.
func (u sessionUse) Limits() belljar.Limits { return u.session.place.Limits }

// Owner made the session.
func (u sessionUse) Owner() belljar.Caller { return u.session.caller }

// Execution is a command in the session without arguments.
func (u sessionUse) Execution() wire.Exec {
	p := *u.session.place
	p.Bind()
	cwd := p.Image.WorkingDir
	return wire.Exec{Env: p.Environment(cwd, u.session.spec.Env), Cwd: cwd, UID: u.box.UID, GID: u.box.GID, Rlimits: p.Rlimits()}
}

// Touch notes a use of the session that is over at once.
func (u sessionUse) Touch() { u.session.typed() }

// KeepAlive notes a sign of life of the session.
func (u sessionUse) KeepAlive() { u.session.stir() }

// Release gives the use back.
func (u sessionUse) Release() { u.session.release() }
