package audit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar/internal/event"
)

// TestGuesses holds that failed authentications, which need no credential, cannot fill the disk, and are all counted.
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
