//go:build linux

package service_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// crowded counts concurrent sandboxes.
type crowded struct {
	runtime.Runtime
	mu        sync.Mutex
	now, most int
}

func (c *crowded) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	c.count(1)
	box, err := c.Runtime.Create(ctx, spec)
	if err != nil {
		c.count(-1)
		return nil, err
	}
	return &counted{box, sync.OnceFunc(func() { c.count(-1) })}, nil
}

func (c *crowded) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
}

type counted struct {
	runtime.Sandbox
	gone func()
}

func (c *counted) Destroy(ctx context.Context) error {
	err := c.Sandbox.Destroy(ctx)
	c.gone()
	return err
}

// Many concurrent users, some of whom cancel: every run ends once, for all readers, and the number of concurrent sandboxes
// stays within the maximum.
func TestCrowd(t *testing.T) {
	const users, each, slots = 4, 15, 3
	c := &crowded{}
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { c.Runtime = rt; return c }), func(o *service.Options) {
		o.Concurrency, o.Quota.ConcurrentRuns = slots, 2
	})
	var wg sync.WaitGroup
	for u := range users {
		runs := b.as(fmt.Sprint("user", u))
		for i := range each {
			wg.Go(func() {
				req := keyed(fmt.Sprint(i), fmt.Sprintf("echo %d; exit %d", i, i%2))
				run, err := runs.Start(t.Context(), req)
				if err != nil {
					t.Errorf("start: %v", err)
					return
				}
				if rand.IntN(4) == 0 {
					if err := runs.Cancel(t.Context(), run.ID); err != nil {
						t.Errorf("cancel: %v", err)
					}
				}
				again, err := runs.Start(t.Context(), req)
				if err != nil || again.ID != run.ID {
					t.Errorf("again: %s instead of %s, %v", again.ID, run.ID, err)
				}
				r := b.follow(run.ID)
				switch {
				case r.Phase == belljar.PhaseKilled && r.ReasonCode == belljar.ReasonCanceledByUser:
				case r.ExitCode != nil && *r.ExitCode == i%2 && r.stdout == fmt.Sprintln(i):
				default:
					t.Errorf("%s %s, exit code %v, printed %q", r.Phase, r.Message, r.ExitCode, r.stdout)
				}
			})
		}
	}
	wg.Wait()
	b.service.WaitIdle()
	if c.now != 0 || c.most > slots {
		t.Errorf("%d sandboxes are left, there were %d at once", c.now, c.most)
	}
	page, err := b.service.As(service.Local()).Admin().Runs(t.Context(), belljar.RunQuery{Limit: 200})
	if err != nil || page.Total != users*each {
		t.Fatalf("%d runs on record, %v", page.Total, err)
	}
	for _, run := range page.Items {
		if !run.Phase.Terminal() {
			t.Errorf("on record as %s", run.Phase)
		}
	}
}
