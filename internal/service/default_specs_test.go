//go:build linux

package service_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
)

// register is a runtime that records the specs of its sandboxes, for all callers.
type register struct {
	*fake.Runtime
	mu    sync.Mutex
	specs []string
}

func (r *register) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	r.mu.Lock()
	r.specs = append(r.specs, noted(spec))
	r.mu.Unlock()
	return r.Runtime.Create(ctx, spec)
}

func noted(spec runtime.Spec) string {
	spec.ID, spec.Lease = "", 0
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// The sandboxes made in advance match the requests with default values.
func TestDefaultSpecs(t *testing.T) {
	for _, life := range []runtime.Lifetime{runtime.LifetimeCreator, runtime.LifetimeDetached} {
		t.Run(string(life), func(t *testing.T) {
			rt := &register{Runtime: fake.New(fake.Options{Dir: t.TempDir()})}
			t.Cleanup(func() { rt.Close() })
			b := newBench(t, func(o *service.Options) {
				o.Runtimes, o.Lifetime, o.Limits.WorkspaceMB = []runtime.Runtime{rt}, life, 7
				o.Require = []string{runtime.ProtectWallTime}
			})
			host, likely, err := b.service.DefaultSpecs(t.Context())
			if err != nil || host != rt.Name() || len(likely) != 2 {
				t.Fatalf("%s, %v, %v", host, likely, err)
			}
			b.run(belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.0", BaseImage: "host", Command: []string{"true"}}})
			sessions := b.service.As(service.Local()).Sessions()
			x, err := sessions.Create(t.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
				SpecVersion: "1.0", BaseImage: "host", WorkspaceExec: true,
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := sessions.Delete(t.Context(), x.ID); err != nil {
				t.Fatal(err)
			}
			want := []string{noted(likely[0]), noted(likely[1])}
			rt.mu.Lock()
			defer rt.mu.Unlock()
			if !slices.Equal(rt.specs, want) {
				t.Errorf("made:   %v\nlikely: %v", rt.specs, want)
			}
		})
	}
}
