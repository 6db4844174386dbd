//go:build linux

package terminal

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/clock"
)

// backward is a clock that can be set back. The test fires its timers of a certain duration.
type backward struct {
	clock.Wall
	length time.Duration

	mu   sync.Mutex
	back time.Duration
	due  func()
}

func (c *backward) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(-c.back)
}

func (c *backward) AfterFunc(d time.Duration, f func()) func() bool {
	if d != c.length {
		return c.Wall.AfterFunc(d, f)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = f
	return func() bool { return true }
}

// A terminal without a client ends after its reattach window, even if the clock is set back meanwhile, and not while it has a
// client.
func TestWindowOfAClockSetBack(t *testing.T) {
	w := newWorld(t)
	c := &backward{length: w.opts.Limits.Reattach}
	w.opts.Clock = c
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ann := w.As(w.session.Owner())
	term, err := ann.Open(ctx, w.session.state.ID, belljar.TerminalSpec{Command: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	late := c.due
	a, err := ann.Attach(ctx, term.ID)
	if err != nil {
		t.Fatal(err)
	}
	late() // it had already fired
	if _, err := ann.Get(ctx, term.ID); err != nil {
		t.Fatal("a terminal with a client was ended: ", err)
	}
	a.Close()
	c.mu.Lock()
	c.back = time.Hour
	c.mu.Unlock()
	c.due()
	if _, err := ann.Get(ctx, term.ID); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("it lives on: %v", err)
	}
}

// A client that knows that its terminal has exited can open its next one at once.
func TestOpenAfterExit(t *testing.T) {
	w := newWorld(t)
	w.opts.Limits.PerSession = 1
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ann := w.As(w.session.Owner())
	open := func() *terminal {
		t.Helper()
		term, err := ann.Open(ctx, w.session.state.ID, belljar.TerminalSpec{Command: []string{"cat"}})
		if err != nil {
			t.Fatal(err)
		}
		return w.table.get(term.ID)
	}
	first := open()
	a, err := first.attach()
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock() // it cannot know the exit yet
	err = first.process().Signal(wire.SIGHUP)
	select {
	case <-first.over:
	case <-time.After(10 * time.Second):
		err = errors.New("the terminal is not over before its viewer knows the exit")
	}
	a.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if e, err := a.Next(ctx); err != nil || e.Kind != belljar.TerminalExit {
		t.Errorf("%+v, %v", e, err)
	}
	open()
}

// A client that attaches while the reattach window ends has the terminal, or is refused: its terminal does not end at once.
func TestAttachAtTheEndOfTheWindow(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	term, err := w.As(w.session.Owner()).Open(ctx, w.session.state.ID, belljar.TerminalSpec{Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	ended := w.table.get(term.ID)
	<-ended.over // its process takes the signals of all terminals below
	for range 20000 {
		x := w.make(w.session, belljar.Terminal{ID: "t"})
		x.proc = ended.process()
		var due sync.WaitGroup
		var begun atomic.Bool
		due.Go(func() {
			begun.Store(true)
			x.checkDetached(time.Time{})
		})
		for spins := 0; !begun.Load(); spins++ { // both begin in the same instant if there are two processors
			if spins > 100000 {
				runtime.Gosched()
			}
		}
		a, err := x.attach()
		due.Wait()
		x.stop()
		if err == nil && a.last != nil {
			t.Fatalf("its client has it, and it ends: %+v", *a.last)
		}
	}
}

// A user keeps at most as many ended terminals as they may have live ones, over all of their sessions.
func TestEndedTerminalsOfAUser(t *testing.T) {
	w := newWorld(t)
	w.opts.Limits.PerUser = 2
	ended := make(chan struct{}, 4)
	w.opts.Record = func(e event.Event) {
		if e.Name == event.TerminalEnded {
			ended <- struct{}{}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var ids []string
	for range 4 {
		x := *w.session
		x.state.ID = belljar.NewID()
		w.opts.Acquire = func(context.Context, belljar.Caller, string) (Session, func(), error) { return &x, func() {}, nil }
		term, err := w.As(x.Owner()).Open(ctx, x.state.ID, belljar.TerminalSpec{Command: []string{"true"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, term.ID)
		select {
		case <-ended:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	for i, id := range ids {
		if kept := w.table.get(id) != nil; kept != (i >= 2) {
			t.Errorf("ended terminal %d is kept: %v", i, kept)
		}
	}
}
