//go:build linux

package terminal

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/test/boxtest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// world is the terminals of one session in a sandbox of the fake runtime.
type world struct {
	*Terminals
	session *session
	work    *lifecycle.Group
}

// session is a session without functions.
type session struct {
	ctx   context.Context
	state belljar.Session
	box   *box.Box
}

func (x *session) Owner() belljar.Caller {
	return belljar.Caller{ID: x.state.UserID, Role: belljar.RoleUser}
}
func (x *session) Session() belljar.Session { return x.state }
func (x *session) Limits() belljar.Limits   { return x.state.Limits }
func (x *session) Context() context.Context { return x.ctx }
func (x *session) Box() *box.Box            { return x.box }
func (x *session) Touch()                   {}
func (x *session) KeepAlive()               {}
func (x *session) Execution() wire.Exec {
	return wire.Exec{Env: []string{"PATH=" + os.Getenv("PATH"), "TERM=dumb"}, UID: x.box.UID, GID: x.box.GID}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	state := belljar.Session{ID: belljar.NewID(), UserID: "ann", Limits: belljar.Limits{StartupTimeoutSec: 180, Pids: 100, NProc: 100}}
	ctx, end := context.WithCancel(context.Background())
	w := &world{session: &session{ctx: ctx, state: state, box: boxtest.New(t)}, work: &lifecycle.Group{}}
	opts := Options{
		Acquire: func(_ context.Context, caller belljar.Caller, id string) (Session, func(), error) {
			return w.session, func() {}, nil
		},
		Living:  func(context.Context, belljar.Caller, string) (bool, error) { return true, nil },
		Ended:   func(context.Context, belljar.Session) error { return &belljar.Error{Code: belljar.CodeConflict} },
		Refused: func(_ belljar.Caller, _ string, err error) error { return err },
		Destroy: func(_ string, sandbox runtime.Sandbox) { _ = sandbox.Destroy(context.Background()) },
		Record:  func(event.Event) {},
		Slack:   time.Minute, Work: w.work, Clock: clock.Wall{}, Log: slog.New(slog.DiscardHandler),
	}
	opts.Limits.Complete()
	w.Terminals = New(opts)
	t.Cleanup(func() {
		w.work.Refuse()
		end()
		w.work.Wait()
	})
	return w
}
