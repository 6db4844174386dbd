package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/pool"
)

// spec returns a spec of the n-th kind.
func spec(n int) runtime.Spec {
	return runtime.Spec{ID: belljar.NewID(), Workspace: runtime.Workspace{Bytes: int64(n)}, Lease: 15 * time.Minute}
}

// start puts a pool in front of a stub, for the duration of the test. It keeps two of a kind, unless the test sets
// another number.
func start(t testing.TB, s *stub, o pool.Options) *pool.Pool {
	t.Helper()
	if o.Size == 0 {
		o.Size = 2
	}
	p, err := pool.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// later lets the pool work for a while, of virtual time.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func create(t testing.TB, p *pool.Pool, s runtime.Spec) *box {
	t.Helper()
	b, err := p.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if b.ID() != s.ID {
		t.Errorf("it is called %s, want %s", b.ID(), s.ID)
	}
	return b.(*box)
}

// figures compares the pool's figures with want, field by field.
func figures(t testing.TB, p *pool.Pool, want string) {
	t.Helper()
	s := p.Stats()
	got := fmt.Sprintf("size %d ready %d hits %d misses %d", s.Size, s.Ready, s.Hits, s.Misses)
	for _, why := range []string{"died", "broken", "unusable", "aged", "idle", "displaced"} {
		if n := s.Drops[why]; n > 0 {
			got += fmt.Sprintf(" %s %d", why, n)
		}
	}
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		begin := time.Now()
		p.Warm(spec(1), spec(2))
		if time.Since(begin) > 0 {
			t.Error("it waited")
		}
		later(time.Second)
		figures(t, p, "size 4 ready 4 hits 0 misses 0")
		begin = time.Now()
		first, second := create(t, p, spec(1)), create(t, p, spec(1))
		if took := time.Since(begin); took > 0 || first.boot == second.boot {
			t.Errorf("two ready ones took %v", took)
		}
		if first.lease != 15*time.Minute {
			t.Errorf("its lease is %v", first.lease)
		}
		create(t, p, spec(1))
		if took := time.Since(begin); took != s.birth {
			t.Errorf("one that was not ready took %v", took)
		}
		later(time.Second)
		figures(t, p, "size 4 ready 4 hits 2 misses 1")
		// After hours without requests they are still there.
		later(3 * time.Hour)
		if got := p.Stats(); got.Ready != 4 || got.Drops["aged"] == 0 || got.Drops["idle"] > 0 {
			t.Errorf("three hours later: %+v", got)
		}
		for _, b := range s.living() {
			if strings.HasPrefix(b.id, "pool-") && b.lease != time.Minute {
				t.Errorf("the lease of a ready one is %v", b.lease)
			}
		}
	})
}

// The pool prepares a kind after its second request, and stops when requests stop.
func TestLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newStub(), pool.Options{})
		create(t, p, spec(1))
		later(time.Second)
		figures(t, p, "size 0 ready 0 hits 0 misses 1")
		create(t, p, spec(1))
		later(time.Second)
		figures(t, p, "size 2 ready 2 hits 0 misses 2")
		other := spec(1)
		other.Limits.MemoryMB = 77 // which is not another kind
		create(t, p, other)
		later(9 * time.Minute)
		figures(t, p, "size 2 ready 2 hits 1 misses 2")
		later(2 * time.Minute)
		figures(t, p, "size 0 ready 0 hits 1 misses 2 idle 2")
		if got := p.Stats().Kinds; got != 0 {
			t.Errorf("it remembers %d kinds", got)
		}
	})
}

// There are never more than Max, and the most recently requested kinds have them.
func TestMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{Size: 2, Max: 3})
		for n := range 100 {
			for range 2 {
				if err := create(t, p, spec(n)).Destroy(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			later(time.Second)
			if got := p.Stats(); got.Ready > 3 || len(s.living()) > 3 {
				t.Fatalf("%d live: %+v", len(s.living()), got)
			}
		}
		figures(t, p, "size 3 ready 3 hits 0 misses 200 displaced 197")
		for i, hits := range []uint64{2, 1, 0} {
			before := p.Stats().Hits
			for range 2 {
				create(t, p, spec(99-i))
			}
			if got := p.Stats().Hits - before; got != hits {
				t.Errorf("kind %d: %d ready, want %d", 99-i, got, hits)
			}
		}
		if got := p.Stats().Kinds; got > 64 {
			t.Errorf("it remembers %d kinds", got)
		}
	})
}

// During requests the pool makes nothing, and afterwards one at a time.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		p.Warm(spec(1))
		later(time.Second)
		for range 50 {
			create(t, p, spec(1))
			later(19 * time.Millisecond)
		}
		figures(t, p, "size 2 ready 0 hits 2 misses 48")
		later(2 * time.Millisecond)
		later(s.birth)
		figures(t, p, "size 2 ready 1 hits 2 misses 48")
		later(s.birth)
		figures(t, p, "size 2 ready 2 hits 2 misses 48")
	})
}

// If no ready sandbox has a parked interpreter, a request gets one without.
func TestReadyWithoutAnInterpreter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newStub(), pool.Options{Size: 1})
		parked := spec(1)
		parked.Park = &runtime.Park{Argv: []string{"python3"}}
		p.Warm(spec(1))
		later(time.Second)
		create(t, p, parked)
		figures(t, p, "size 1 ready 0 hits 1 misses 0")
		parked.ID = belljar.NewID()
		create(t, p, parked)
		figures(t, p, "size 2 ready 0 hits 1 misses 1")
		later(time.Second)
		parked.ID = belljar.NewID()
		create(t, p, parked)
		figures(t, p, "size 2 ready 1 hits 2 misses 1")
	})
}

// A sandbox whose interpreter did not start is destroyed: a process that was killed in it would count as its claimer's. Others are made
// without an interpreter until the first of them is replaced, so that births do not repeat without end.
func TestInterpreterThatDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		s.stuck = true
		p := start(t, s, pool.Options{})
		parked := spec(1)
		parked.Park = &runtime.Park{Argv: []string{"python3"}}
		ready := func(births, parks int) {
			t.Helper()
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.creates) != births || len(s.boxes) != 2 {
				t.Errorf("%d births, and %d sandboxes", len(s.creates), len(s.boxes))
			}
			for _, b := range s.boxes {
				if b.parks != parks {
					t.Errorf("%d interpreters were to start in a ready sandbox", b.parks)
				}
			}
		}
		p.Warm(parked)
		later(time.Second)
		ready(3, 0)
		later(50 * time.Minute)
		ready(3, 0)
		s.set(func() { s.stuck = false })
		later(11 * time.Minute)
		ready(5, 1)
		if got := p.Stats().Failures; got != 1 {
			t.Errorf("%d failures", got)
		}
	})
}

func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		p.Warm(spec(1))
		later(time.Second)
		var mu sync.Mutex
		seen := map[int]bool{}
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				b := create(t, p, spec(1))
				mu.Lock()
				defer mu.Unlock()
				if seen[b.boot] {
					t.Errorf("sandbox %d was handed out twice", b.boot)
				}
				seen[b.boot] = true
			})
		}
		all.Wait()
		figures(t, p, "size 2 ready 0 hits 2 misses 198")
	})
}

// A sandbox that ends while it is ready is replaced, and never returned.
func TestDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		p.Warm(spec(1))
		later(time.Second)
		s.set(func() {
			for _, b := range s.boxes {
				b.end(runtime.ExitOOM)
			}
		})
		later(time.Second)
		figures(t, p, "size 2 ready 2 hits 0 misses 0 died 2")
		create(t, p, spec(1))
		figures(t, p, "size 2 ready 1 hits 1 misses 0 died 2")
	})
}

// A sandbox whose agent does not answer delays its caller up to the timeout, and no later caller.
func TestDeafAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		p.Warm(spec(1))
		later(time.Second)
		s.set(func() { s.deaf = true })
		begin := time.Now()
		b := create(t, p, spec(1))
		if took := time.Since(begin); took != 5*time.Second+s.birth || b.boot < 3 {
			t.Errorf("sandbox %d after %v", b.boot, took)
		}
		figures(t, p, "size 2 ready 1 hits 0 misses 1 unusable 1")
		later(26 * time.Second) // a third of the lease, and the timeout
		s.set(func() { s.deaf = false })
		later(time.Hour - time.Minute)
		figures(t, p, "size 2 ready 2 hits 0 misses 1 broken 1 unusable 1")
		if got := p.Stats(); got.Failures == 0 || got.Failures > 8 {
			t.Errorf("births of sandboxes that do not answer: %+v", got)
		}
		if got := len(s.living()); got != 3 {
			t.Errorf("%d live, want two ready ones and the caller's", got)
		}
	})
}

func TestClaimThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		p.Warm(spec(1))
		later(time.Second)
		s.set(func() { s.spoil = errors.New("the limit is refused") })
		mine := spec(1)
		create(t, p, mine)
		figures(t, p, "size 2 ready 1 hits 0 misses 1 unusable 1")
		if ids, err := p.List(t.Context()); err != nil || !slices.Equal(ids, []string{mine.ID}) {
			t.Errorf("list: %v, %v", ids, err)
		}
	})
}

// Failed births are retried with backoff and do not block a cold start.
func TestBirthsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		s.set(func() { s.refuse = errors.New("no") })
		p.Warm(spec(1))
		later(time.Hour)
		if got := p.Stats().Failures; got < 60 || got > 70 {
			t.Errorf("%d births in an hour", got)
		}
		if _, err := p.Create(t.Context(), spec(1)); err == nil || err.Error() != "no" {
			t.Errorf("a cold start says %v", err)
		}
		s.set(func() { s.refuse = nil })
		create(t, p, spec(1))
		later(2 * time.Minute)
		if got := p.Stats().Ready; got != 2 {
			t.Errorf("%d ready", got)
		}
	})
}

// A kind whose births always fail takes nothing from others, however often it is requested.
func TestKindThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{Size: 2, Max: 2})
		p.Warm(spec(1))
		later(time.Second)
		s.set(func() { s.flawed = 9 })
		create(t, p, spec(1))
		create(t, p, spec(1))
		for range 5 {
			if _, err := p.Create(t.Context(), spec(9)); err == nil {
				t.Fatal("it was made")
			}
			later(time.Minute)
		}
		if got := p.Stats(); got.Ready == 0 || got.Failures < 4 || got.Failures > 10 {
			t.Errorf("%+v", got)
		}
		s.set(func() { s.flawed = 0 })
		later(2 * time.Minute)
		create(t, p, spec(9))
		if got := p.Stats(); got.Hits != 3 {
			t.Errorf("a kind that can be made again: %+v", got)
		}
	})
}

// Ready sandboxes do not hinder other requests.
func TestMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		s.room = 4
		p := start(t, s, pool.Options{})
		p.Warm(spec(1), spec(2))
		later(time.Second)
		for range 4 {
			create(t, p, spec(3))
		}
		if _, err := p.Create(t.Context(), spec(3)); !errors.Is(err, runtime.ErrFull) {
			t.Errorf("a fifth: %v", err)
		}
		if got := p.Stats(); got.Ready > 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		// A killed daemon leaves its ready sandboxes orphaned.
		killed, err := pool.New(s, pool.Options{Size: 2})
		if err != nil {
			t.Fatal(err)
		}
		killed.Warm(spec(1))
		later(time.Second)
		if ids, err := killed.List(t.Context()); err != nil || len(ids) > 0 {
			t.Errorf("list: %v, %v", ids, err)
		}
		p := start(t, s, pool.Options{})
		p.Warm(spec(1))
		later(time.Second)
		mine := create(t, p, spec(1))
		ids, err := p.List(t.Context())
		if err != nil || len(ids) != 3 || !slices.Contains(ids, mine.ID()) {
			t.Errorf("list: %v, %v", ids, err)
		}
		for _, id := range ids {
			if id != mine.ID() && !strings.HasPrefix(id, "pool-") {
				t.Errorf("what was left is called %s", id)
			}
		}
		if err := killed.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		p.Warm(spec(1))
		time.Sleep(30 * time.Millisecond) // one is ready, one is being made
		mine := create(t, p, spec(1))
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if left := s.living(); len(left) != 1 || left[0] != mine {
			t.Errorf("left: %v", left)
		}
		late := create(t, p, spec(1))
		if s.claims > 1 {
			t.Error("a closed pool hands sandboxes out")
		}
		_ = late
	})
}

func TestNotForEverybody(t *testing.T) {
	if _, err := pool.New(struct{ runtime.Runtime }{newStub()}, pool.Options{}); err == nil {
		t.Error("a pool before a runtime whose sandboxes cannot be claimed")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		kept := spec(1)
		kept.Workspace.ID = "kept"
		p.Warm(kept)
		later(time.Second)
		for range 3 {
			kept.ID = belljar.NewID()
			create(t, p, kept)
			later(time.Second)
		}
		figures(t, p, "size 0 ready 0 hits 0 misses 0")
		if _, err := p.Test(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
