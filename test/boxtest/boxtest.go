//go:build linux

// Package boxtest makes boxes for tests.
package boxtest

import (
	"context"
	"errors"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/box"
)

// New returns a sandbox of the fake runtime, which isolates nothing. It ends with the test.
func New(t *testing.T) *box.Box {
	t.Helper()
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	sandbox, err := rt.Create(t.Context(), runtime.Spec{
		ID: belljar.NewID(), Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100, Medium: runtime.MediumMemory},
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
	b, err := box.Connect(t.Context(), sandbox, caps, runtime.Root{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
