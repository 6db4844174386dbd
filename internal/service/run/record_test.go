package run

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/store"
)

// failingUpdates is a store whose updates fail with these errors, one after the other, and then succeed.
type failingUpdates struct {
	store.Runs
	errs    []error
	written int
}

func (s *failingUpdates) Update(context.Context, store.Run) error {
	if len(s.errs) == 0 {
		s.written++
		return nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return err
}

// timers is a clock that keeps its timers until they are fired.
type timers struct {
	clock.Wall
	set []func()
}

func (c *timers) AfterFunc(_ time.Duration, f func()) func() bool {
	c.set = append(c.set, f)
	return func() bool { return false }
}

// fire runs the timers, and those that they set, at most ten rounds.
func (c *timers) fire() {
	for range 10 {
		due := c.set
		c.set = nil
		for _, f := range due {
			f()
		}
	}
}

// A record that cannot be written is written later, unless the run is not on record, or has ended there.
func TestUpdateAgain(t *testing.T) {
	full := errors.New("disk is full")
	for _, test := range []struct {
		errs []error
		want int
	}{
		{nil, 1},
		{[]error{full, full}, 1},
		{[]error{store.ErrEnded}, 0},
		{[]error{store.ErrNotFound}, 0},
		{[]error{store.ErrInvalid}, 0},
		{[]error{store.ErrClosed}, 0},
	} {
		on, c := &failingUpdates{errs: test.errs}, &timers{}
		s := &recorder{store: on, clock: c, log: slog.New(slog.DiscardHandler)}
		r := &Run{id: "r"}
		r.state.Phase = belljar.PhaseRunning
		s.note(r)
		c.fire()
		if on.written != test.want || len(on.errs) > 0 || len(c.set) > 0 {
			t.Errorf("%v: written %d times, want %d; %d failures and %d timers are left", test.errs, on.written, test.want, len(on.errs), len(c.set))
		}
	}
}
