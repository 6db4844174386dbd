//go:build linux

package pool_test

// make test runs these suites without the race detector: the pool's own tests run with it.

import (
	"os"
	"sync"
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
	var mu sync.Mutex
	dirs := map[runtime.Runtime]string{}
	open := func(t *testing.T, dir string) runtime.Runtime {
		p := prime(t, openNative(t, dir))
		mu.Lock()
		dirs[p] = dir
		mu.Unlock()
		return p
	}
	runtimetest.Run(t, runtimetest.Options{
		New: func(t *testing.T) runtime.Runtime { return open(t, t.TempDir()) },
		Restart: func(t *testing.T, r runtime.Runtime) runtime.Runtime {
			end(t, r)
			mu.Lock()
			dir := dirs[r]
			mu.Unlock()
			return open(t, dir)
		},
		UID: 1000, GID: 1000, Isolated: true, Parallel: true, Net: net, Short: tier.Pick(true, false), Few: tier.Pick(true, false),
	})
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
	type host struct {
		*fake.Host
		below *fake.Runtime
	}
	var mu sync.Mutex
	hosts := map[runtime.Runtime]host{}
	open := func(t *testing.T, h *fake.Host) runtime.Runtime {
		r := fake.New(fake.Options{Host: h, Dir: t.TempDir()})
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		p := prime(t, r)
		mu.Lock()
		hosts[p] = host{h, r}
		mu.Unlock()
		return p
	}
	runtimetest.Run(t, runtimetest.Options{
		UID: os.Getuid(), GID: os.Getgid(),
		New:          func(t *testing.T) runtime.Runtime { return open(t, fake.NewHost()) },
		RestartKills: true, Parallel: true, Short: tier.Pick(true, false),
		Restart: func(t *testing.T, r runtime.Runtime) runtime.Runtime {
			end(t, r)
			mu.Lock()
			old := hosts[r]
			mu.Unlock()
			if err := old.below.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, old.Host)
		},
	})
}
