//go:build linux

package pool_test

// make test runs these suites without the race detector: the pool's own tests run with it.

import (
	"os"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/tier"
)

func TestPlainConformanceNative(t *testing.T) {
	net, err := build.Net(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := runtimetest.Options{
		UID: 1000, GID: 1000, Isolated: true, Parallel: true, Net: net, Short: tier.Pick(true, false), Few: tier.Pick(true, false),
	}
	o.New, o.Restart = runtimetest.Restarting((*testing.T).TempDir, func(t *testing.T, dir string) runtime.Runtime {
		return prime(t, openNative(t, dir))
	}, end)
	runtimetest.Run(t, o)
}

// end ends a daemon together with its keeper: two never share an installation.
func end(t *testing.T, r runtime.Runtime) {
	t.Helper()
	if err := r.(primed).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPlainConformanceFake(t *testing.T) {
	tier.Soak(t)
	o := runtimetest.Options{UID: os.Getuid(), GID: os.Getgid(), RestartKills: true, Parallel: true, Short: tier.Pick(true, false)}
	o.New, o.Restart = runtimetest.Restarting(func(*testing.T) *fake.Host { return fake.NewHost() }, func(t *testing.T, h *fake.Host) runtime.Runtime {
		r := fake.New(fake.Options{Host: h, Dir: t.TempDir()})
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		return prime(t, r)
	}, func(t *testing.T, r runtime.Runtime) {
		end(t, r)
		if err := r.(primed).Runtime.(*fake.Runtime).Close(); err != nil {
			t.Fatal(err)
		}
	})
	runtimetest.Run(t, o)
}
