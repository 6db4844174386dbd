package audit

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// TestGuesses checks that failed authentications, which need no credential, cannot fill the disk, and are all counted.
func TestGuesses(t *testing.T) {
	trail := open(t, Options{Queue: 4 * mostLines})
	guess := func(n int, at time.Time) {
		for range n {
			trail.Record(event.Event{Name: event.AuthFailed, Time: at, Reason: "unknown_key"})
		}
	}
	guess(mostLines+7, noon)
	trail.Record(event.Event{Name: event.RunCreated, Time: noon})
	guess(mostLines+2, noon.Add(time.Minute))
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
	each := slices.Repeat([]string{"one"}, mostLines)
	want := slices.Concat(each, []string{"2025-10-28T12:00:00.000Zmany_moremap[count:7]"}, each, []string{"2025-10-28T12:01:00.000Zmany_moremap[count:2]"})
	if diff := cmp.Diff(want, reasons); diff != "" || events != 1 {
		t.Errorf("%d other events; %s", events, diff)
	}
}

// TestDeniedBursts checks that one user's denied requests and reopened sessions displace no event of another user, and are all counted,
// also while the writer is blocked.
func TestDeniedBursts(t *testing.T) {
	c := newClock(noon)
	var stuck atomic.Bool
	entered, free := make(chan struct{}), make(chan struct{})
	trail := open(t, Options{Queue: 3*mostLines + 4, Now: func() time.Time {
		if stuck.CompareAndSwap(true, false) {
			entered <- struct{}{}
			<-free
		}
		return c.read()
	}})
	stuck.Store(true)
	trail.Record(event.Event{Name: event.RunCreated, Time: noon})
	<-entered // the writer has received it and is blocked
	denied := func(n int, user string, at time.Time) {
		for range n {
			trail.Record(event.Event{Name: event.Denied, Time: at, Caller: belljar.Caller{ID: user}, Reason: "forbidden"})
		}
	}
	denied(10*mostLines, "ann", noon)
	denied(1, "bob", noon)
	denied(mostLines+9, "ann", noon.Add(time.Minute))
	for range mostLines + 5 {
		trail.Record(event.Event{Name: event.SessionResumed, Time: noon.Add(time.Minute), Caller: belljar.Caller{ID: "ann"}})
	}
	trail.Record(event.Event{Name: event.RunCompleted, Time: noon.Add(time.Minute)})
	close(free)
	got := map[string]int{}
	for _, l := range lines(t, trail, "20251028") {
		got[fmt.Sprintf("%v %v %v %v", l["event"], l["user_id"], l["reason"], l["detail"])]++
	}
	want := map[string]int{
		"sandbox.run.created <nil> <nil> <nil>": 1, "sandbox.run.completed <nil> <nil> <nil>": 1,
		"sandbox.denied ann forbidden <nil>": 2 * mostLines, "sandbox.denied bob forbidden <nil>": 1,
		"sandbox.denied ann many_more map[count:2700]": 1, "sandbox.denied ann many_more map[count:9]": 1,
		"sandbox.session.resumed ann <nil> <nil>": mostLines, "sandbox.session.resumed ann many_more map[count:5]": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// One user's events cannot fill the disk, whatever their names, and are all counted. Those of runs, of sessions' lives and of operators
// have a line each.
func TestBurstsOfAUser(t *testing.T) {
	ann, root := belljar.Caller{ID: "ann", Role: belljar.RoleUser}, belljar.Caller{ID: "root", Role: belljar.RoleAdmin}
	many := 2*mostLines + moreLines
	want := map[string]int{}
	trail := open(t, Options{Queue: 10 * many})
	record := func(by belljar.Caller, name string, n, lines int) {
		for range n {
			trail.Record(event.Event{Name: name, Time: noon, Caller: by, Kind: "x"})
		}
		want[fmt.Sprintf("%s %s x <nil>", name, by.ID)] = lines
		if left := n - lines; left > 0 {
			want[fmt.Sprintf("%s %s <nil> map[count:%d]", name, by.ID, left)] = 1
		}
	}
	record(ann, event.ArtifactOpened, mostLines+moreLines, mostLines+moreLines)
	record(ann, event.SignedIn, many, mostLines) // the user has used up what names share
	record(ann, event.SecretUsed, mostLines+1, mostLines)
	record(ann, event.SecretSet, mostLines, mostLines)
	record(ann, event.RunCreated, many, many)
	record(ann, event.StdinClosed, many, many)
	record(ann, event.EgressDenied, many, mostLines)
	record(ann, event.EgressAllowed, many, mostLines)
	record(ann, event.SessionCreated, many, many)
	record(ann, event.SessionEnded, many, many)
	record(belljar.Caller{ID: "bob", Role: belljar.RoleUser}, event.ArtifactOpened, mostLines+1, mostLines+1)
	record(root, event.QuotaSet, many, many)
	record(root, event.Denied, many, mostLines)
	record(root, event.EgressDenied, many, mostLines)
	record(root, event.PortOpened, mostLines+moreLines, mostLines+moreLines)
	record(root, event.PortClosed, many, mostLines)
	got := map[string]int{}
	for _, l := range lines(t, trail, "20251028") {
		got[fmt.Sprintf("%v %v %v %v", l["event"], l["user_id"], l["kind"], l["detail"])]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A line that counts many events is counted as many if the queue has no room for it.
func TestLostBurst(t *testing.T) {
	trail := &Trail{queue: make(chan event.Event, 1)}
	for range mostLines + 7 {
		trail.Record(event.Event{Name: event.Denied, Time: noon})
	}
	trail.Record(event.Event{Name: event.Denied, Time: noon.Add(time.Minute)})
	if got := trail.lost.Load(); got != mostLines-1+7+1 {
		t.Errorf("%d lost", got)
	}
}

// After a wrong clock is set back, failed authentications have their own lines again.
func TestGuessesAfterTheClockIsSetBack(t *testing.T) {
	trail := open(t, Options{Queue: 4 * mostLines})
	for range mostLines + 1 {
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
	trail := open(t, Options{Queue: 2 * mostLines, Now: c.read, After: func(d time.Duration) <-chan time.Time {
		asked <- d
		return over
	}})
	for range mostLines + 7 {
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
	for _, l := range lines(t, trail, "20251028")[mostLines:] {
		after = append(after, l["event"], l["detail"])
	}
	want := []any{event.AuthFailed, map[string]any{"count": "7"}, event.RunCreated, nil}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Error(diff)
	}
}
