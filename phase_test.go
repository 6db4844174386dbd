package belljar_test

import (
	"testing"

	"github.com/belljar/belljar"
)

// TestPhases pins the state machine of docs/compatibility.md#phases: a row lists the phases that may
// follow a phase.
func TestPhases(t *testing.T) {
	all := []belljar.Phase{"queued", "starting", "running", "completed", "failed", "killed", "timed_out"}
	allowed := map[belljar.Phase]string{
		"queued":   ".s..fk.",
		"starting": "..r.fkt",
		"running":  "...cfkt",
	}
	for _, from := range all {
		row := allowed[from]
		if row == "" {
			row = "......."
		}
		for i, to := range all {
			if want := row[i] != '.'; from.CanBecome(to) != want {
				t.Errorf("%s to %s: %t, want %t", from, to, !want, want)
			}
		}
		if want := row == "......."; from.Terminal() != want {
			t.Errorf("%s is terminal: %t, want %t", from, !want, want)
		}
	}
	for _, p := range []belljar.Phase{"", "paused"} {
		if p.Terminal() || p.CanBecome("running") || belljar.PhaseRunning.CanBecome(p) {
			t.Errorf("phase %q is taken for one of ours", p)
		}
	}
}
