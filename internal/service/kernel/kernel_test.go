//go:build linux

package kernel

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// session is a session without functions, which counts its records.
type session struct {
	table   *Table
	box     *box.Box
	records int
}

func (x *session) Context() context.Context { return context.Background() }
func (x *session) Session() belljar.Session { return belljar.Session{ID: "1"} }
func (x *session) Contexts() *Table         { return x.table }
func (x *session) Record() error            { x.records++; return nil }
func (x *session) Box() *box.Box            { return x.box }
func (x *session) Limits() belljar.Limits   { return belljar.Limits{} }
func (x *session) Execution() wire.Exec {
	return wire.Exec{Env: []string{"PATH=" + os.Getenv("PATH")}, UID: x.box.UID, GID: x.box.GID}
}

// newSession returns a session in a sandbox of the fake runtime, and its contexts. stop is called when a context ends.
func newSession(t *testing.T, stop func()) (*session, belljar.Contexts) {
	t.Helper()
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	sandbox, err := rt.Create(t.Context(), runtime.Spec{
		ID: "1", Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100, Medium: runtime.MediumMemory},
		Network: runtime.Network{Mode: runtime.NetworkNone}, Lifetime: runtime.LifetimeCreator,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(sandbox.Destroy(context.Background()), rt.Close()); err != nil {
			t.Error(err)
		}
	})
	caps, err := rt.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := &session{table: NewTable(Limits{}, func() *queue.Queue { return nil })}
	if x.box, err = box.Connect(t.Context(), sandbox, caps, runtime.Root{}); err != nil {
		t.Fatal(err)
	}
	all := New(Options{
		Acquire: func(context.Context, belljar.Caller, string, bool) (Session, func(), error) { return x, func() {}, nil },
		Stop:    func(string, string) { stop() },
		Refused: func(_ belljar.Caller, _ string, err error) error { return err },
		Record:  func(event.Event) {},
		Now:     time.Now,
	})
	return x, all.As(belljar.Caller{ID: "ann"})
}

// A client that leaves while its context is deleted or restarted leaves no interpreter, and no record of the context as it was.
func TestLeaveWhileAContextEnds(t *testing.T) {
	leave := func() {}
	x, all := newSession(t, func() { leave() })
	for name, end := range map[string]func(ctx context.Context) error{
		"delete": func(ctx context.Context) error { return all.Delete(ctx, "1", "bash") },
		"restart": func(ctx context.Context) error {
			_, err := all.Restart(ctx, "1", "bash")
			return err
		},
	} {
		if _, err := all.Create(t.Context(), "1", belljar.ContextSpec{Language: "bash"}); err != nil {
			t.Fatal(err)
		}
		x.records = 0
		var ctx context.Context
		ctx, leave = context.WithCancel(t.Context())
		err := end(ctx)
		leave()
		shells, failed := agent.Shells(t.Context(), x.box.Agent)
		if name == "restart" {
			shells = nil // the new one may start
		}
		if failed != nil || len(shells) != 0 || x.records != 1 {
			t.Errorf("%s: %v; %+v, %v, recorded %d times", name, err, shells, failed, x.records)
		}
		leave = func() {}
	}
}
