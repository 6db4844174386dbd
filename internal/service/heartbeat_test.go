//go:build linux

package service_test

import (
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// A live run writes heartbeats, even while it waits. An ended run does not.
func TestHeartbeats(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, one, func(o *service.Options) { o.Clock = clock })
	run, end := b.busy()
	waits := b.start(shell("true"))
	for range 3 {
		clock.pass(10 * time.Second)
	}
	beats := func(r result) (times []time.Time) {
		for _, f := range r.frames {
			if f.Type == belljar.FrameHeartbeat {
				times = append(times, f.Time)
			}
		}
		return times
	}
	end()
	r := b.follow(run.ID)
	if got := beats(r); len(got) != 3 || got[1].Sub(got[0]) != 10*time.Second {
		t.Errorf("heartbeats %v", got)
	}
	if got := beats(b.follow(waits.ID)); len(got) != 3 {
		t.Errorf("heartbeats in the queue %v", got)
	}
	clock.pass(time.Hour)
	if again := b.follow(run.ID); len(again.frames) != len(r.frames) {
		t.Error("the log of a run that has ended grows")
	}
}
