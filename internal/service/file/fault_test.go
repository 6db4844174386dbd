package file

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// place is the workspace of a session that ends with ctx.
type place struct {
	ctx   context.Context
	state belljar.Session
}

func (p place) Box() *box.Box            { return nil }
func (p place) Context() context.Context { return p.ctx }
func (p place) Session() belljar.Session { return p.state }
func (p place) Limits() belljar.Limits   { return belljar.Limits{WorkspaceMB: 64, Inodes: 1000} }
func (p place) KeepAlive()               {}
func (p place) Release()                 {}

// using returns a use of a workspace: op ends with the operation, session with the session.
func using(op, session context.Context) *use {
	files := New(Options{Ended: func(context.Context, belljar.Session) error {
		return &belljar.Error{Code: belljar.CodeConflict, Message: "the session has ended"}
	}})
	return &use{Workspace: place{session, belljar.Session{ID: "s1"}}, Box: &box.Box{Agent: agent.New(answering)}, files: files, ctx: op}
}

// answering dials an agent that responds to pings.
func answering(context.Context) (net.Conn, error) {
	host, guest := net.Pipe()
	go func() {
		defer guest.Close()
		r, w := wire.NewReader(guest), wire.NewWriter(guest)
		for range 2 { // the hello and the request
			if _, err := r.Read(); err != nil {
				return
			}
		}
		if w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version}) == nil {
			_ = w.JSON(wire.KindReply, wire.Reply{Info: &wire.Info{}}) // until the host closes
		}
	}()
	return host, nil
}

// An operation whose sandbox has died ends with the session, even if that takes a while. If the session does not end, the error is about the agent.
func TestFaultOfADeadSandbox(t *testing.T) {
	for name, tt := range map[string]struct {
		notice time.Duration // when the end is detected
		code   belljar.Code
	}{"soon": {box.Dying - 1, belljar.CodeConflict}, "never": {time.Hour, belljar.CodeRuntimeUnavailable}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				session, end := context.WithTimeout(t.Context(), tt.notice)
				defer end()
				op, stop := context.WithCancel(t.Context())
				defer stop()
				defer context.AfterFunc(session, stop)() // as in stream
				u := using(op, session)
				u.Agent = agent.New(func(context.Context) (net.Conn, error) { return nil, runtime.ErrGone })
				if err := u.fault("a", agent.ErrDisconnected); belljar.CodeOf(err) != tt.code {
					t.Error(err)
				}
			})
		})
	}
}

func TestFaultOfTheAgent(t *testing.T) {
	u := using(t.Context(), t.Context())
	for _, tt := range []struct {
		refused wire.Error
		code    belljar.Code
		rule    any
		words   string
	}{
		{wire.Error{Code: wire.CodeNotFound}, belljar.CodeNotFound, nil, `"a/b" does not exist`},
		{wire.Error{Code: wire.CodeNotFound, Path: "a"}, belljar.CodeNotFound, nil, `"a" does not exist`},
		{wire.Error{Code: wire.CodeExists}, belljar.CodeConflict, "exists", `"a/b" exists`},
		{wire.Error{Code: wire.CodePathEscapes}, belljar.CodePathEscapes, nil, "leads out of the workspace"},
		{wire.Error{Code: wire.CodeNotFile}, belljar.CodeConflict, "not_a_file", "not a regular file"},
		{wire.Error{Code: wire.CodeDenied}, belljar.CodeConflict, "denied", "permissions"},
		{wire.Error{Code: wire.CodeNoSpace}, belljar.CodeDiskFull, nil, "the workspace is full"},
		{wire.Error{Code: wire.CodeTooLarge}, belljar.CodeTooLarge, "entries", "too many entries"},
		{wire.Error{Code: wire.CodeInvalid, Errno: wire.ENOTDIR}, belljar.CodeConflict, "not_a_folder", "not a folder"},
		{wire.Error{Code: wire.CodeInvalid, Errno: wire.ENOTEMPTY}, belljar.CodeConflict, "not_empty", "not empty"},
		{wire.Error{Code: wire.CodeInternal, Errno: wire.ETIMEDOUT}, belljar.CodeTimeout, nil, "in time"},
		{wire.Error{Code: wire.CodeInternal, Errno: wire.EXDEV}, belljar.CodeConflict, "other_file_system", "another file system"},
		{wire.Error{Code: wire.CodeInvalid, Errno: wire.ENAMETOOLONG}, belljar.CodeInvalidRequest, nil, "too long"},
		{wire.Error{Code: wire.CodeInvalid}, belljar.CodeInvalidRequest, nil, "cannot be done"},
		{wire.Error{Code: wire.CodeInternal, Message: "a program took over the agent"}, belljar.CodeInternal, nil, "the sandbox's agent failed"},
		{wire.Error{Code: wire.CodeProtocol}, belljar.CodeInternal, nil, "the sandbox's agent failed"},
	} {
		var e *belljar.Error
		if !errors.As(u.fault("a/b", &tt.refused), &e) || e.Code != tt.code || e.Details["rule"] != tt.rule || !strings.Contains(e.Message, tt.words) {
			t.Errorf("%+v: %+v", tt.refused, e)
			continue
		}
		if e.Details["session_id"] != "s1" || !errors.Is(e, &tt.refused) || strings.Contains(e.Message, "took over") {
			t.Errorf("%+v: %+v", tt.refused, e)
		}
	}
	var changed *belljar.Error
	err := u.packFault("a", fmt.Errorf("pack a: %w", &wire.Error{Code: wire.CodeChanged, Path: "a/b"}))
	if !errors.As(err, &changed) || changed.Code != belljar.CodeConflict || changed.Details["rule"] != "changed" || changed.Details["path"] != "a/b" {
		t.Errorf("%+v", changed)
	}
	var full *belljar.Error
	if errors.As(u.fault("a", &wire.Error{Code: wire.CodeNoSpace}), &full); full.Details["workspace_mb"] != 64 || full.Details["inodes"] != 1000 || full.Details["scope"] != "workspace" {
		t.Errorf("%+v", full.Details)
	}
}

// A hint for a workspace on disk is about the disk, whose size determines how many files it has.
func TestFaultOfAFullDisk(t *testing.T) {
	u := using(t.Context(), t.Context())
	u.Workspace = place{t.Context(), belljar.Session{ID: "s1", Workspace: belljar.Workspace{Medium: "disk", MB: 64, Volume: "v"}}}
	full := &wire.Error{Code: wire.CodeNoSpace}
	for name, err := range map[string]error{"write": u.fault("a", full), "upload": u.mergeError(full), "too large": (&input{u: u}).tooLarge()} {
		var e *belljar.Error
		if !errors.As(err, &e) || e.Details["inodes"] != nil || !strings.Contains(e.Hint, "another volume with a larger workspace.mb (--disk)") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestFaultOfTheOperation(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	late, cancel := context.WithCancelCause(t.Context())
	cancel(errAnswerTime)
	own := &belljar.Error{Code: belljar.CodeTooLarge}
	for name, tt := range map[string]struct {
		op, session context.Context
		err         error
		code        belljar.Code
	}{
		"ours already":      {ended, ended, own, belljar.CodeTooLarge},
		"session ended":     {t.Context(), ended, &wire.Error{Code: wire.CodeNotFound}, belljar.CodeConflict},
		"too late":          {late, t.Context(), context.Canceled, belljar.CodeTimeout},
		"canceled":          {ended, t.Context(), context.Canceled, belljar.CodeCanceled},
		"agent broke off":   {t.Context(), t.Context(), agent.ErrDisconnected, belljar.CodeRuntimeUnavailable},
		"sandbox gone":      {t.Context(), t.Context(), runtime.ErrGone, belljar.CodeRuntimeUnavailable},
		"an agent's answer": {t.Context(), t.Context(), errors.New("nonsense"), belljar.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := using(tt.op, tt.session).fault("a", tt.err); belljar.CodeOf(err) != tt.code {
				t.Errorf("%v", err)
			}
		})
	}
}

// An operation on a session that is still being made ends with a timeout.
func TestSlowSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := New(Options{Acquire: func(ctx context.Context, _ belljar.Caller, _ string) (Workspace, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}})
		begun := time.Now()
		_, err := files.As(belljar.Caller{}).Stat(t.Context(), "s", "f")
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeTimeout || e.Details["session_id"] != "s" || time.Since(begun) != answerTime {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
