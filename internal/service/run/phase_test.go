package run

import (
	"log/slog"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/outcome"
)

// TestTransitions tries every transition between phases: a run makes only those that the root package permits, and its log records them.
func TestTransitions(t *testing.T) {
	all := []belljar.Phase{
		belljar.PhaseQueued, belljar.PhaseStarting, belljar.PhaseRunning,
		belljar.PhaseCompleted, belljar.PhaseFailed, belljar.PhaseKilled, belljar.PhaseTimedOut,
	}
	for _, from := range all {
		for _, to := range all {
			s := &recorder{clock: clock.Wall{}, log: slog.New(slog.DiscardHandler), record: func(event.Event) {}, unregister: func(*Run) {}}
			r := &Run{id: "r", log: &memory.Log{}, plan: &plan{}, ctx: t.Context(), done: make(chan struct{})}
			r.state.Phase = from
			var err error
			if to.Terminal() {
				var last belljar.Run
				if last, err = s.finish(r, outcome.Outcome{Phase: to}, &belljar.ResourceUsage{}, false); err == nil {
					s.publish(r, last)
				}
			} else if to == belljar.PhaseRunning {
				now := time.Now()
				if err = r.advance(to, &now); err == nil {
					r.appendLog(phaseFrame(to))
				}
			} else {
				err = s.become(r, to)
			}
			allowed := from.CanBecome(to)
			got := r.Snapshot()
			if (err == nil) != allowed || (got.Phase == to) != (allowed || from == to) {
				t.Errorf("%s to %s: %v, now %s", from, to, err, got.Phase)
			}
			if (got.FinishedAt != nil) != (allowed && to.Terminal()) {
				t.Errorf("%s to %s: finished at %v", from, to, got.FinishedAt)
			}
			if (got.StartedAt != nil) != (allowed && to == belljar.PhaseRunning) {
				t.Errorf("%s to %s: started at %v", from, to, got.StartedAt)
			}
			if err := r.log.Seal(); err != nil {
				t.Fatal(err)
			}
			events := 0
			for f, err := range r.log.Read(t.Context(), 1) {
				if err != nil || f.Data["phase"] != string(to) {
					t.Errorf("%s to %s: event %+v, %v", from, to, f, err)
				}
				events++
			}
			if want := allowed && !to.Terminal(); (events == 1) != want {
				t.Errorf("%s to %s: %d events", from, to, events)
			}
		}
	}
}
