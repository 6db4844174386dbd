package pool_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/pool"
)

// of returns the spec of a sandbox of an image.
func of(digest string) runtime.Spec {
	s := spec(1)
	s.Root.Digest = digest
	return s
}

// The ready sandboxes of an image can be released, so that it can be removed, and no more are made of
// it.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		p.Warm(of("sha256:a"), of("sha256:b"))
		later(time.Second)
		figures(t, p, "size 4 ready 4 hits 0 misses 0")
		if !p.Release(t.Context(), "sha256:a") {
			t.Error("nothing was let go of")
		}
		if n := len(s.living()); n != 2 {
			t.Errorf("%d sandboxes live", n)
		}
		later(time.Second)
		figures(t, p, "size 2 ready 2 hits 0 misses 0 displaced 2")
		if p.Release(t.Context(), "sha256:a") || p.Release(t.Context(), "") {
			t.Error("something was let go of again")
		}
	})
}

// A removed image does not prevent other kinds from being made ready.
func TestImageIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		s.set(func() { s.refuse = runtime.ErrNoImage })
		p := start(t, s, pool.Options{})
		p.Warm(of("sha256:a"))
		later(time.Second)
		if got := p.Stats(); got.Failures != 1 {
			t.Errorf("%d failures", got.Failures)
		}
		tried := len(s.creates)
		s.set(func() { s.refuse = nil })
		p.Warm(of("sha256:b"))
		later(100 * time.Millisecond)
		figures(t, p, "size 2 ready 2 hits 0 misses 0")
		if n := len(s.creates); n != tried+2 || tried != 1 {
			t.Errorf("tried %d times, then %d", tried, n-tried)
		}
	})
}

// After a yield the pool fills again, and retries destructions that failed.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{})
		p.Warm(of("sha256:a"))
		later(time.Second)
		s.set(func() { s.keeps = errors.New("away") })
		if !p.Yield() || p.Yield() {
			t.Error("it does not yield once")
		}
		s.set(func() { s.keeps = nil })
		later(time.Second)
		figures(t, p, "size 2 ready 0 hits 0 misses 0 displaced 2")
		later(2 * time.Minute)
		figures(t, p, "size 2 ready 2 hits 0 misses 0 displaced 2")
		if n := len(s.living()); n != 2 {
			t.Errorf("%d sandboxes live", n)
		}
		if got := p.Stats(); got.Failures != 0 {
			t.Errorf("births that failed: %+v", got)
		}
	})
}

// Destructions that fail, e.g. while an engine is away, are retried when sandboxes can be made again.
func TestDestroyLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		p := start(t, s, pool.Options{MaxAge: time.Hour})
		p.Warm(of("sha256:a"))
		later(time.Second)
		s.set(func() { s.deaf, s.keeps, s.refuse = true, errors.New("away"), errors.New("away") })
		later(2 * time.Hour)
		s.set(func() { s.deaf, s.keeps, s.refuse = false, nil, nil })
		later(time.Hour / 2)
		if n, ready := len(s.living()), p.Stats().Ready; n != ready || ready == 0 {
			t.Errorf("%d sandboxes live, %d are ready", n, ready)
		}
	})
}

// Close destroys what could not be destroyed before, or reports it.
func TestCloseDestroysWhatIsLeft(t *testing.T) {
	for name, away := range map[string]error{"it works again": nil, "it still fails": errors.New("away")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStub()
				p, err := pool.New(s, pool.Options{Size: 2})
				if err != nil {
					t.Fatal(err)
				}
				p.Warm(of("sha256:a"))
				later(time.Second)
				s.set(func() { s.keeps = errors.New("busy") })
				p.Yield()
				s.set(func() { s.keeps = away })
				if err := p.Close(); !errors.Is(err, away) {
					t.Errorf("%v, want %v", err, away)
				}
				if n := len(s.living()); (n > 0) != (away != nil) {
					t.Errorf("%d sandboxes live", n)
				}
			})
		})
	}
}
