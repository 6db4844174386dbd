package run

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook/memory"
)

// The log decides whether a run may begin again: only one that never left the queue.
func TestHistory(t *testing.T) {
	phase := func(p belljar.Phase) belljar.Frame { return phaseFrame(p) }
	started := belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventStart}
	output := belljar.Frame{Type: belljar.FrameStdout, Output: []byte("12345")}
	for _, test := range []struct {
		name   string
		frames []belljar.Frame
		want   history
	}{
		{"empty", nil, history{}},
		{"queued", []belljar.Frame{phase(belljar.PhaseQueued), {Type: belljar.FrameHeartbeat}}, history{phase: belljar.PhaseQueued}},
		{"starting", []belljar.Frame{phase(belljar.PhaseQueued), phase(belljar.PhaseStarting)}, history{phase: belljar.PhaseStarting, moved: true}},
		{"running", []belljar.Frame{phase(belljar.PhaseRunning), started, output, output},
			history{phase: belljar.PhaseRunning, moved: true, begun: true, kept: 10}},
		{"truncated", []belljar.Frame{phase(belljar.PhaseRunning), output, {Type: belljar.FrameTruncated, Reason: cutCap}},
			history{phase: belljar.PhaseRunning, moved: true, begun: true, kept: 5, cut: cutCap}},
		{"a build's output", []belljar.Frame{{Type: belljar.FrameStderr, Step: belljar.StepBuild, Output: []byte("warning")}}, history{moved: true}},
	} {
		log := &memory.Log{}
		if err := log.Append(test.frames...); err != nil {
			t.Fatal(err)
		}
		got, err := readHistory(t.Context(), log)
		if err != nil || got.phase != test.want.phase || got.moved != test.want.moved || got.begun != test.want.begun || got.kept != test.want.kept || got.cut != test.want.cut || got.over() {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
	log := &memory.Log{}
	if err := log.Append(phase(belljar.PhaseRunning), belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventEnd}); err != nil {
		t.Fatal(err)
	}
	if got, err := readHistory(t.Context(), log); err != nil || !got.over() {
		t.Errorf("with an end event: %+v, %v", got, err)
	}
}
