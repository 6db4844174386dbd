//go:build linux

package box_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
)

// sideWorld returns a maker on the fake runtime, and an order.
func sideWorld(t *testing.T) (*box.Maker, *fake.Runtime, box.SideOrder) {
	t.Helper()
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	m := &box.Maker{
		Lifetime: runtime.LifetimeCreator, Work: func(f func()) { f() }, AfterFunc: clock.Wall{}.AfterFunc, Log: slog.New(slog.DiscardHandler),
		Hosts: placement.Hosts{placement.NewHost(rt)},
	}
	caps, err := rt.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &placement.Placement{Host: m.Hosts[0], Caps: caps, Image: runtime.Root{Ref: runtime.HostRef}, Limits: belljar.DefaultLimits()}
	return m, rt, box.SideOrder{Placement: p, Time: time.Minute}
}

// gone checks that no sandbox is left.
func gone(t *testing.T, rt *fake.Runtime) {
	t.Helper()
	if ids, err := rt.List(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("left are %v, %v", ids, err)
	}
}

// A side sandbox exists while its work lasts. The work gets its command's output and exit. Afterwards the sandbox is removed.
func TestSide(t *testing.T) {
	m, rt, order := sideWorld(t)
	var id string
	order.Made = func(s runtime.Sandbox) { id = s.ID() }
	var out strings.Builder
	report, err := m.Side(t.Context(), order, func(ctx context.Context, b *box.Box) error {
		if !m.IsSide(id) {
			t.Error("it is not known as a side sandbox")
		}
		exit, err := b.Run(ctx, wire.Exec{Argv: []string{"/bin/sh", "-c", "echo hello; exit 3"}}, func(_ wire.Stream, p []byte) { out.Write(p) })
		if err != nil || exit.Code != 3 {
			t.Errorf("%+v, %v", exit, err)
		}
		return err
	})
	if err != nil || out.String() != "hello\n" || report != nil {
		t.Errorf("%q, %+v, %v", out.String(), report, err)
	}
	if m.IsSide(id) {
		t.Error("it is still known")
	}
	gone(t, rt)
}

// However the work ends, the sandbox is removed, and the error has the cause.
func TestSideEnds(t *testing.T) {
	forever := func(ctx context.Context, b *box.Box) error {
		_, err := b.Run(ctx, wire.Exec{Argv: []string{"/bin/sleep", "1000"}}, nil)
		return err
	}
	failed := errors.New("no luck")
	for name, tt := range map[string]struct {
		work   func(stop context.CancelCauseFunc) func(context.Context, *box.Box) error
		time   time.Duration
		wanted error
	}{
		"failed": {func(context.CancelCauseFunc) func(context.Context, *box.Box) error {
			return func(context.Context, *box.Box) error { return failed }
		}, time.Minute, failed},
		"canceled": {func(stop context.CancelCauseFunc) func(context.Context, *box.Box) error {
			return func(ctx context.Context, b *box.Box) error { stop(fault.ErrCanceled); return forever(ctx, b) }
		}, time.Minute, fault.ErrCanceled},
		"too long": {func(context.CancelCauseFunc) func(context.Context, *box.Box) error { return forever }, 50 * time.Millisecond, box.ErrSideTime},
	} {
		t.Run(name, func(t *testing.T) {
			m, rt, order := sideWorld(t)
			order.Time = tt.time
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			if _, err := m.Side(ctx, order, tt.work(stop)); !errors.Is(err, tt.wanted) {
				t.Errorf("%v", err)
			}
			gone(t, rt)
		})
	}
}

// A panic of the work also removes the sandbox.
func TestSidePanics(t *testing.T) {
	m, rt, order := sideWorld(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_, _ = m.Side(t.Context(), order, func(context.Context, *box.Box) error { panic("bug") })
	}()
	gone(t, rt)
}

// A side sandbox that dies during its work, or is not ready in time, is reported as such.
func TestSideDies(t *testing.T) {
	m, rt, order := sideWorld(t)
	_, err := m.Side(t.Context(), order, func(ctx context.Context, b *box.Box) error {
		if err := b.Sandbox.Destroy(ctx); err != nil {
			t.Error(err)
		}
		_, err := b.Run(ctx, wire.Exec{Argv: []string{"/bin/true"}}, nil)
		return err
	})
	var exit *box.SideExitError
	if !errors.As(err, &exit) || exit.Exit.Reason != runtime.ExitDestroyed {
		t.Errorf("%v", err)
	}
	gone(t, rt)

	slow := maker(scripted{create: func(ctx context.Context, _ runtime.Spec) (runtime.Sandbox, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	p := placed(slow)
	p.Limits.StartupTimeoutSec = 0.02
	if _, err := slow.Side(t.Context(), box.SideOrder{Placement: p, Time: time.Minute}, nil); !errors.Is(err, fault.ErrStartupTimeout) {
		t.Errorf("%v", err)
	}
}
