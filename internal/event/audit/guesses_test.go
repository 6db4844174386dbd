package audit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar/internal/event"
)

// TestGuesses checks that failed authentications, which need no credential, cannot fill the disk, and are all counted.
func TestGuesses(t *testing.T) {
	trail := open(t, Options{Queue: 4 * mostFailures})
	guess := func(n int, at time.Time) {
		for range n {
			trail.Record(event.Event{Name: event.AuthFailed, Time: at, Reason: "unknown_key"})
		}
	}
	guess(mostFailures+7, noon)
	trail.Record(event.Event{Name: event.RunCreated, Time: noon})
	guess(mostFailures+2, noon.Add(time.Minute))
	var reasons []string
	events := 0
	for _, l := range lines(t, trail, "20251028") {
		switch {
		case l["event"] != event.AuthFailed:
			events++
		case l["reason"] == "unknown_key":
			reasons = append(reasons, "one")
		default:
			reasons = append(reasons, fmt.Sprint(l["ts"], l["reason"], l["detail"]))
		}
	}
	each := slices.Repeat([]string{"one"}, mostFailures)
	want := slices.Concat(each, []string{"2025-10-28T12:00:00.000Zmany_moremap[count:7]"}, each, []string{"2025-10-28T12:01:00.000Zmany_moremap[count:2]"})
	if diff := cmp.Diff(want, reasons); diff != "" || events != 1 {
		t.Errorf("%d other events; %s", events, diff)
	}
}

// After a wrong clock is set back, failed authentications have their own lines again.
func TestGuessesAfterTheClockIsSetBack(t *testing.T) {
	trail := open(t, Options{Queue: 4 * mostFailures})
	for range mostFailures + 1 {
		trail.Record(event.Event{Name: event.AuthFailed, Time: noon.Add(time.Hour), Reason: "unknown_key"})
	}
	trail.Record(event.Event{Name: event.AuthFailed, Time: noon.Add(time.Hour - time.Second), Reason: "late"})
	trail.Record(event.Event{Name: event.AuthFailed, Time: noon, Reason: "wrong_code"})
	var reasons []any
	for _, l := range lines(t, trail, "20251028") {
		if l["reason"] != "unknown_key" {
			reasons = append(reasons, l["reason"])
		}
	}
	if diff := cmp.Diff([]any{"many_more", "wrong_code"}, reasons); diff != "" {
		t.Error(diff)
	}
}

// The size of a burst is in the trail after its minute, without another event.
func TestGuessesOfABurst(t *testing.T) {
	c := newClock(noon)
	asked, over := make(chan time.Duration, 1), make(chan time.Time)
	trail := open(t, Options{Queue: 2 * mostFailures, Now: c.read, After: func(d time.Duration) <-chan time.Time {
		asked <- d
		return over
	}})
	for range mostFailures + 7 {
		trail.Record(event.Event{Name: event.AuthFailed, Time: noon, Reason: "unknown_key"})
	}
	<-asked
	for counted := false; !counted; { // the minute is not over
		counted = len(trail.queue) == 0
		over <- noon
		if d := <-asked; d != time.Minute {
			t.Errorf("looks again after %v", d)
		}
	}
	c.set(noon.Add(time.Minute))
	over <- c.read()
	trail.Record(event.Event{Name: event.RunCreated, Time: c.read()})
	var after []any
	for _, l := range lines(t, trail, "20251028")[mostFailures:] {
		after = append(after, l["event"], l["detail"])
	}
	want := []any{event.AuthFailed, map[string]any{"count": "7"}, event.RunCreated, nil}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Error(diff)
	}
}
