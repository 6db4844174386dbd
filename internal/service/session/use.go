package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/file"
	"github.com/belljar/belljar/internal/service/kernel"
	"github.com/belljar/belljar/internal/service/port"
	"github.com/belljar/belljar/internal/service/terminal"
)

// Use is a use of a session's sandbox, from the view of files and terminals.
type Use struct {
	box     *box.Box
	session *Session
	inside  context.Context
}

var (
	_ file.Workspace   = Use{}
	_ terminal.Session = Use{}
	_ port.Session     = Use{}
	_ kernel.Session   = Use{}
)

// Use counts a use of the session until [Use.Release].
func (x *Session) Use(ctx context.Context) (Use, error) {
	b, err := x.Acquire(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	return Use{b, x, x.inside}, err
}

// Box returns the session's sandbox with its agent.
func (u Use) Box() *box.Box { return u.box }

// Context ends when the session ends, or its sandbox is released.
func (u Use) Context() context.Context { return u.inside }

// Life ends when the session ends.
func (u Use) Life() context.Context { return u.session.ctx }

// Session returns the session's current state.
func (u Use) Session() belljar.Session { return u.session.Snapshot() }

// Limits returns the limits of the session's sandbox.
func (u Use) Limits() belljar.Limits { return u.session.Placement().Limits }

// Owner returns the creator of the session.
func (u Use) Owner() belljar.Caller { return u.session.caller }

// Execution returns a command in the session without arguments. It starts in the workspace, which has the session's files, and ignores the
// image's folder. Its processes have no limit on CPU time (decision 31): they may outlive it, and compute for as long as the session lives.
func (u Use) Execution() wire.Exec {
	p := u.session.Placement()
	p.Bind()
	limits := p.Rlimits()
	delete(limits, "cpu")
	return wire.Exec{Env: p.Environment("", u.session.spec.Env), UID: u.box.UID, GID: u.box.GID, Rlimits: limits}
}

// Contexts returns the session's contexts.
func (u Use) Contexts() *kernel.Table { return u.session.Contexts }

// Record records the current state of the session, with its contexts.
func (u Use) Record() error { return note(u.session) }

// BeginContext implements [kernel.Session].
func (u Use) BeginContext(name string) error { return BeginContext(u.session, name) }

// RecordContexts stores a session after a change of its contexts, if it can.
func RecordContexts(x *Session) {
	if err := note(x); err != nil {
		x.all.opts.Log.Error("contexts of a session cannot be recorded", "session_id", x.id, "err", err)
	}
}

// BeginContext records a context before its first code, if it can, unless that has happened; "" is no context. It fails for one that was deleted.
func BeginContext(x *Session, name string) error {
	switch {
	case name == "":
	case x.Contexts.Queue(name) == nil:
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("context %q was deleted before its code began", name), Hint: "send the code again, with its language",
		}
	case x.Contexts.Fresh(name):
		RecordContexts(x)
	}
	return nil
}

// Touch records an instantaneous use of the session.
func (u Use) Touch() { u.session.Touch() }

// KeepAlive records activity that resets the idle timeout of the session but not the TTL.
func (u Use) KeepAlive() { u.session.KeepAlive() }

// Release ends the use.
func (u Use) Release() { u.session.Release() }

// Life returns a context that ends when the session ends, or is left to the next process. It does not count as a use of the session.
func Life(x *Session) context.Context { return x.ctx }

// Ended returns why uses of a session have ended with ctx, their [Use.Context]: belljar is shutting down, and leaves the session to the next
// process, or the session is [Unusable].
func Ended(ctx context.Context, s belljar.Session) error {
	if errors.Is(context.Cause(ctx), fault.ErrDetached) {
		return fault.ShuttingDown()
	}
	return Unusable(s)
}

// Detached reports whether a session whose [Life] has ended is left to the next process.
func Detached(x *Session) bool { return errors.Is(context.Cause(x.ctx), fault.ErrDetached) }
