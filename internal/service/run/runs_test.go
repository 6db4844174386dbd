package run

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/queue"
)

// under returns runs in a queue with one slot: the first has it, and the second waits for it.
func under(t *testing.T) (s *Runs, first, second *Run) {
	t.Helper()
	s = New(Options{Work: &lifecycle.Group{}})
	q := queue.New(queue.Options{Slots: 1, Length: 1, Now: time.Now})
	var list []*Run
	for range 2 {
		r := &Run{id: belljar.NewID(), owner: "ann", plan: &plan{}, done: make(chan struct{}), detached: make(chan struct{})}
		r.ctx, r.stop = context.WithCancelCause(context.Background())
		var err error
		if r.ticket, err = q.Enter(r.owner, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.register(r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	list[0].state.Phase, list[1].state.Phase = belljar.PhaseStarting, belljar.PhaseQueued
	return s, list[0], list[1]
}

// A draining service waits for running runs, and stops queued ones.
func TestRefuse(t *testing.T) {
	s, first, second := under(t)
	if list := s.Refuse(); len(list) != 1 || list[0] != first || first.ctx.Err() != nil {
		t.Errorf("waits for %d, the first is stopped by %v", len(list), context.Cause(first.ctx))
	}
	if why := context.Cause(second.ctx); !errors.Is(why, fault.ErrShutdown) {
		t.Errorf("the second is stopped by %v", why)
	}
	if err := s.register(&Run{id: "late"}); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || s.Get("late") != nil {
		t.Errorf("a run that comes later: %v", err)
	}
	s.Stop()
	if why := context.Cause(first.ctx); !errors.Is(why, fault.ErrShutdown) {
		t.Errorf("the first is stopped by %v", why)
	}
}

func TestOrphaned(t *testing.T) {
	s, first, _ := under(t)
	for _, test := range []struct {
		command string
		want    bool
	}{
		{first.id, false},
		{buildPrefix + first.id, true}, // a build is not continued
		{belljar.NewID(), true},
		{"terminal:x", false}, // not a run
		{"", false},
	} {
		if got := s.Orphaned(test.command); got != test.want {
			t.Errorf("%q: %v", test.command, got)
		}
	}
	s.unregister(first)
	if !s.Orphaned(first.id) || s.Get(first.id) != nil {
		t.Error("the command of a run that has ended belongs to one under way")
	}
}
