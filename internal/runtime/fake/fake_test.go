//go:build linux

package fake_test

import (
	"errors"
	"os"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/leak"
	"github.com/belljar/belljar/test/nest"
	"github.com/belljar/belljar/test/tier"
)

func TestMain(m *testing.M) { os.Exit(nest.Main(func() int { return leak.Main(m) })) }

// end ends the runtime as the end of a daemon does.
func end(t *testing.T, r runtime.Runtime) {
	t.Helper()
	if err := r.(*fake.Runtime).Close(); err != nil {
		t.Error(err)
	}
}

func TestConformance(t *testing.T) {
	for name, mux := range map[string]bool{"sockets": false, "mux": true} {
		t.Run(name, func(t *testing.T) {
			o := runtimetest.Options{UID: os.Getuid(), GID: os.Getgid(), RestartKills: true, Parallel: true, Short: tier.Pick(true, false)}
			o.New, o.Restart = runtimetest.Restarting(func(*testing.T) *fake.Host { return fake.NewHost() }, func(t *testing.T, h *fake.Host) runtime.Runtime {
				r := fake.New(fake.Options{Host: h, Mux: mux, Dir: t.TempDir()})
				t.Cleanup(func() { end(t, r) })
				return r
			}, end)
			runtimetest.Run(t, o)
		})
	}
}

func TestRefusesWhatItCannotEnforce(t *testing.T) {
	r := fake.New(fake.Options{Dir: t.TempDir()})
	for _, name := range []string{runtime.ProtectMemory, runtime.ProtectNetwork, runtime.ProtectFilesystem} {
		_, err := r.Create(t.Context(), runtime.Spec{ID: belljar.NewID(), Require: []string{runtime.ProtectWallTime, name}})
		if step := (*runtime.StepError)(nil); !errors.As(err, &step) || step.Step != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	r := fake.New(fake.Options{Dir: dir})
	s, err := r.Create(t.Context(), runtime.Spec{ID: belljar.NewID()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
