//go:build linux

package pool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/runtime/pool"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/tier"
)

// primed is a pool that has a sandbox ready for every request, so that all sandboxes of a suite come from it.
type primed struct{ *pool.Pool }

func (p primed) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	ready, before := p.Await(ctx, spec), p.Stats()
	box, err := p.Pool.Create(ctx, spec)
	if after := p.Stats(); ready && err == nil && after.Hits == before.Hits {
		return nil, errors.Join(errors.New("there was a ready one, and another was handed out"), box.Destroy(ctx))
	}
	return box, err
}

// patience limits the time until a sandbox is ready, on a slow and busy machine.
const patience = 2 * time.Minute

// prime puts a primed pool in front of a runtime. A benchmark's pool waits before it fills, like a server's: births during a
// measurement would distort it.
func prime(t testing.TB, r runtime.Runtime) primed {
	t.Helper()
	o := pool.Options{Size: 1, ClaimTimeout: patience}
	if _, ok := t.(*testing.B); !ok {
		o.QuietTime = time.Microsecond
	}
	p, err := pool.New(r, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return primed{p}
}

func openNative(t testing.TB, dir string) *native.Runtime {
	t.Helper()
	program, err := build.AgentProgram()
	if err != nil {
		t.Fatal(err)
	}
	h := fnv.New64a() // a unique installation: two runtimes with one name would sweep sandboxes that they do not know
	h.Write([]byte(dir))
	r, err := native.New(native.Options{Agent: bytes.NewReader(program), RunDir: dir, Installation: fmt.Sprintf("test-pool-%x", h.Sum64())})
	if err != nil {
		t.Fatal(err)
	}
	runtimetest.CloseAfter(t, r)
	return r
}

// nativeSpec returns a spec with the default limits.
func nativeSpec() runtime.Spec {
	limits := belljar.DefaultLimits()
	return runtime.Spec{
		ID: belljar.NewID(), Root: runtime.Root{Ref: runtime.HostRef}, Limits: limits, Lifetime: runtime.LifetimeDetached, Lease: time.Hour,
		Workspace: runtime.Workspace{Bytes: int64(limits.WorkspaceMB) << 20, Inodes: int64(limits.Inodes), Exec: true, Medium: runtime.MediumMemory},
	}
}

// A claimed sandbox has its caller's lease and no earlier caller's data; a ready one has its own lease.
func TestLease(t *testing.T) {
	dir := t.TempDir()
	r := openNative(t, dir)
	p := prime(t, r)
	box, err := p.Create(t.Context(), nativeSpec())
	if err != nil {
		t.Fatal(err)
	}
	info, err := agent.New(box.Dial).Ping(t.Context())
	if err != nil || info.LeaseMS != time.Hour.Milliseconds() || info.Execs != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if !p.Await(t.Context(), nativeSpec()) {
		t.Fatal("none is ready")
	}
	ids, err := r.List(t.Context())
	if err != nil || len(ids) != 2 {
		t.Fatalf("list: %v, %v", ids, err)
	}
	for _, id := range ids {
		if id == box.ID() {
			continue
		}
		ready, err := r.Attach(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := agent.New(ready.Dial).Ping(t.Context()); err != nil || info.LeaseMS != time.Minute.Milliseconds() {
			t.Errorf("%+v, %v", info, err)
		}
	}
	if ids, err := p.List(t.Context()); err != nil || len(ids) != 1 || ids[0] != box.ID() {
		t.Errorf("the pool's list: %v, %v", ids, err)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if ids, err := r.List(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("left: %v, %v", ids, err)
	}
}

// Two hundred simultaneous callers with two ready sandboxes: each gets its own, and nothing is left.
func TestBurstNative(t *testing.T) {
	burst := uint64(tier.Pick(60, 200))
	r := openNative(t, t.TempDir())
	p, err := pool.New(r, pool.Options{Size: 2, ClaimTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	p.Warm(nativeSpec())
	// No further request meanwhile: the pool makes none while a request is in progress.
	for until := time.Now().Add(patience); p.Stats().Ready < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("none are ready: %+v", p.Stats())
		}
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	for range burst {
		all.Go(func() {
			box, err := p.Create(context.Background(), nativeSpec())
			if err != nil {
				t.Error(err)
				return
			}
			info, err := agent.New(box.Dial).Ping(context.Background())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			if seen[info.BootID] {
				t.Error("one was handed out twice")
			}
			seen[info.BootID] = true
			mu.Unlock()
			if err := box.Destroy(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s := p.Stats(); s.Hits < 2 || s.Hits+s.Misses != burst || len(seen) != int(burst) {
		t.Errorf("%d sandboxes, %+v", len(seen), s)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if ids, err := r.List(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("left: %v, %v", ids, err)
	}
}

// BenchmarkCreate measures the time until a command has run, with a ready sandbox and without.
func BenchmarkCreate(b *testing.B) {
	r := openNative(b, b.TempDir())
	for name, of := range map[string]runtime.Runtime{"cold": r, "ready": prime(b, r)} {
		for _, with := range []string{"", "+exec"} {
			b.Run(name+with, func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					spec := nativeSpec()
					if p, ok := of.(primed); ok && !p.Await(b.Context(), spec) {
						b.Fatal("none is ready")
					}
					b.StartTimer()
					var box runtime.Sandbox
					var err error
					if p, ok := of.(primed); ok {
						box, err = p.Pool.Create(b.Context(), spec)
					} else {
						box, err = of.Create(b.Context(), spec)
					}
					if err != nil {
						b.Fatal(err)
					}
					if with != "" {
						runTrue(b, box)
					}
					b.StopTimer()
					if err := box.Destroy(b.Context()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			})
		}
	}
}

func runTrue(b *testing.B, box runtime.Sandbox) {
	_, exit := runtimetest.Execute(b, box.Dial, wire.Exec{ID: belljar.NewID(), Argv: []string{"/bin/true"}, UID: 1000, GID: 1000, KillAll: true})
	if exit.Code != 0 {
		b.Fatalf("%+v", exit)
	}
}
