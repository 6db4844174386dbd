package session

import (
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
)

func TestLifespan(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	min := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	usual := lifespan{terms: terms{ttl: 10 * time.Minute, lifetime: time.Hour}, ends: min(60)}
	usual.touch(start)
	idle := usual
	idle.idle = 5 * time.Minute
	kept := usual
	kept.retained, kept.ends = true, min(20)
	for _, c := range []struct {
		name   string
		life   lifespan
		now    int
		inUse  bool
		expiry int
		check  int
		why    string // its beginning
		unused bool
	}{
		{"fresh", usual, 0, false, 10, 10, "", false},
		{"in use", usual, 0, true, 10, 60, "", false},
		{"unused", usual, 10, false, 10, 10, "it was not used for 10m", true},
		{"long in use", usual, 59, true, 60, 60, "", false},
		{"over its lifetime", usual, 60, true, 60, 60, "its lifetime of 1h", false},
		{"idle", idle, 4, false, 5, 5, "", false},
		{"idle for too long", idle, 5, true, 5, 5, "idle:", false},
		{"retained", kept, 19, false, 20, 20, "", false},
		{"retained, in use", kept, 19, true, 20, 20, "", false},
		{"retained for its time", kept, 20, true, 20, 20, "it was closed", false},
	} {
		now := min(c.now)
		if got := c.life.expiry(now, c.inUse); !got.Equal(min(c.expiry)) {
			t.Errorf("%s: expires at %v", c.name, got)
		}
		if got := c.life.check(now, c.inUse); !got.Equal(min(c.check)) {
			t.Errorf("%s: checked at %v", c.name, got)
		}
		why, unused := c.life.expired(now, c.inUse)
		if !strings.HasPrefix(why, c.why) || (why == "") != (c.why == "") || unused != c.unused {
			t.Errorf("%s: %q, %v", c.name, why, unused)
		}
	}
}

// noRuns has no runs.
type noRuns struct{ Runs }

func (noRuns) ActiveIn(string) (active, quiet bool) { return false, false }

// A session waits only once for its turn to hibernate, however long that takes.
func TestRestsOnce(t *testing.T) {
	clock := &stopped{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	s := New(Options{
		Terms: Terms{TTL: time.Hour, Lifetime: time.Hour, Rest: time.Minute}, Clock: clock, Runs: noRuns{},
		Queue: queue.New(queue.Options{}), Work: &lifecycle.Group{},
	})
	for range restsAtOnce {
		defer s.resting.Take("another", 0).Leave()
	}
	x := s.bare("1", belljar.Caller{ID: "ann"}, belljar.SessionSpec{}, &placement.Placement{}, s.termsOf(belljar.SessionSpec{}))
	defer x.stop(nil)
	x.state.State = belljar.SessionStarting
	x.life.touch(clock.at)
	x.life.ends = clock.at.Add(time.Hour)
	x.begin(&box.Box{})
	for range 2 {
		clock.at = clock.at.Add(time.Minute)
		x.checkExpiry()
	}
	if tried := x.life.tried; !tried.Equal(clock.at.Add(-time.Minute)) {
		t.Errorf("it tried again at %v", tried)
	}
}
