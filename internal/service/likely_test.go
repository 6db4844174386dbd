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

// register is a runtime that notes what is made, as blanks.
type register struct {
	*fake.Runtime
	mu    sync.Mutex
	specs []string
}

func (r *register) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	r.mu.Lock()
	r.specs = append(r.specs, r.blank(spec))
	r.mu.Unlock()
	return r.Runtime.Create(ctx, spec)
}

func (r *register) blank(spec runtime.Spec) string {
	text, err := json.Marshal(r.Blank(spec))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// What is made ahead for callers who ask for nothing is what they then need.
func TestLikely(t *testing.T) {
	for _, life := range []runtime.Lifetime{runtime.LifetimeCreator, runtime.LifetimeDetached} {
		t.Run(string(life), func(t *testing.T) {
			noted := &register{Runtime: fake.New(fake.Options{Dir: t.TempDir()})}
			t.Cleanup(func() { noted.Close() })
			b := newBench(t, func(o *service.Options) {
				o.Runtimes, o.Lifetime, o.Limits.WorkspaceMB = []runtime.Runtime{noted}, life, 7
				o.Require = []string{runtime.ProtectWallTime}
			})
			likely, err := b.service.Likely(t.Context())
			if err != nil || len(likely) != 2 {
				t.Fatalf("%v, %v", likely, err)
			}
			b.run(belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.0", BaseImage: "host", Command: []string{"true"}}})
			sessions := b.service.As(service.Local()).Sessions()
			x, err := sessions.Create(t.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
				SpecVersion: "1.0", BaseImage: "host", WorkspaceExec: true,
				Resources: belljar.Resources{MemoryMB: 99, CPU: 2}, TimeoutSec: 5, // which are no other kind
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := sessions.Delete(t.Context(), x.ID); err != nil {
				t.Fatal(err)
			}
			want := []string{noted.blank(likely[0]), noted.blank(likely[1])}
			noted.mu.Lock()
			defer noted.mu.Unlock()
			if !slices.Equal(noted.specs, want) {
				t.Errorf("made:   %v\nlikely: %v", noted.specs, want)
			}
		})
	}
}
