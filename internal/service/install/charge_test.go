//go:build linux

package install

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/placement"
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
