//go:build linux

package install

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/shelf"
	"github.com/belljar/belljar/internal/store"
)

// metered is a runtime whose sandboxes have used three seconds of CPU time.
type metered struct{ *fake.Runtime }

func (m metered) Create(ctx context.Context, s runtime.Spec) (runtime.Sandbox, error) {
	sandbox, err := m.Runtime.Create(ctx, s)
	if err != nil {
		return nil, err
	}
	return meteredSandbox{sandbox}, nil
}

type meteredSandbox struct{ runtime.Sandbox }

func (meteredSandbox) Usage(context.Context) (runtime.Usage, error) {
	return runtime.Usage{CPU: new(3 * time.Second)}, nil
}

// The user is charged for the CPU time of an installation, also if it fails.
func TestCharge(t *testing.T) {
	rt := metered{fake.New(fake.Options{Dir: t.TempDir()})}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	host := placement.NewHost(rt)
	caps, err := rt.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := New(Options{Time: time.Minute, MB: 16, Boxes: &box.Maker{
		Lifetime: runtime.LifetimeCreator, Work: func(f func()) { f() }, AfterFunc: clock.Wall{}.AfterFunc, Log: slog.New(slog.DiscardHandler),
		Hosts: placement.Hosts{host},
	}})
	broken := *toolOf("pip")
	broken.ask = []string{"/bin/false"}
	var charged []store.Charge
	order := Order{
		Placement: &placement.Placement{Host: host, Caps: caps, Image: runtime.Root{Ref: runtime.HostRef}, Limits: belljar.DefaultLimits()},
		Charge:    func(c store.Charge) { charged = append(charged, c) },
	}
	err = i.install(t.Context(), &broken, []string{"a"}, order, nil)
	if belljar.CodeOf(err) != belljar.CodeImageInvalid || len(charged) != 1 || charged[0] != (store.Charge{CPUSeconds: 3}) {
		t.Errorf("%+v, %v", charged, err)
	}
}

// slow is a runtime in which the first sandbox begins at the end of its request, and no further one begins.
type slow struct {
	*fake.Runtime
	first atomic.Bool
	begun chan struct{}
}

var errSlow = errors.New("no sandbox")

func (s *slow) Create(ctx context.Context, _ runtime.Spec) (runtime.Sandbox, error) {
	if s.first.CompareAndSwap(false, true) {
		close(s.begun)
		<-ctx.Done()
	}
	return nil, errSlow
}

// TestFlights checks that identical requests of one user wait for each other, and those of other users do not.
func TestFlights(t *testing.T) {
	rt := &slow{Runtime: fake.New(fake.Options{Dir: t.TempDir()}), begun: make(chan struct{})}
	host := placement.NewHost(rt)
	caps, err := rt.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mirror, _ := url.Parse("https://packages.example.com/simple/")
	i := New(Options{
		Shelf: &shelf.Shelf{Dir: t.TempDir(), Keep: 1 << 20, Max: 1 << 20}, Mirrors: map[string][]*url.URL{"pip": {mirror}},
		Time: time.Minute, MB: 16, Now: time.Now, Boxes: &box.Maker{
			Lifetime: runtime.LifetimeCreator, Work: func(f func()) { f() }, AfterFunc: clock.Wall{}.AfterFunc, Log: slog.New(slog.DiscardHandler),
			Hosts: placement.Hosts{host},
		},
	})
	// install returns whether the request waited for another, which ends it.
	install := func(ctx context.Context, user string) (waited bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := i.Ready(ctx, Order{
			Caller: belljar.Caller{ID: user}, Packages: belljar.Packages{Pip: []string{"a"}},
			Placement: &placement.Placement{Host: host, Caps: caps, Image: runtime.Root{Ref: "python:3", Digest: "sha256:1"}, Limits: belljar.DefaultLimits()},
			Tell:      func(string, string) { waited = true; cancel() },
		})
		if err == nil {
			t.Errorf("%s: packages without a sandbox", user)
		}
		return waited
	}
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() { install(ctx, "ada") })
	<-rt.begun
	if !install(t.Context(), "ada") {
		t.Error("a second request of the same user installs, too")
	}
	if install(t.Context(), "bob") {
		t.Error("another user waits")
	}
	cancel()
	first.Wait()
}
