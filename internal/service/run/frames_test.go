package run

import (
	"context"
	"encoding/json"
	"iter"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// allAtOnce yields a log without turns.
func allAtOnce(_ context.Context, log iter.Seq2[belljar.Frame, error], _, _ uint64) iter.Seq2[belljar.Frame, error] {
	return log
}

// The reader of an ended run's log keeps none of the run's artifacts in memory.
func TestReplayDropsArtifacts(t *testing.T) {
	now := time.Unix(1e9, 0)
	var log []byte
	for seq := range uint64(2) {
		line, err := json.Marshal(belljar.Frame{Seq: seq + 1, Type: belljar.FrameStdout, Output: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		log = append(append(log, line...), '\n')
	}
	row := &store.Run{Run: belljar.Run{ID: belljar.NewID(), Phase: belljar.PhaseCompleted, FinishedAt: &now}, LastSeq: 3, Log: log}
	row.SetArtifacts([]belljar.Artifact{{Path: "a", Size: 1}})
	kept := weak.Make(&row.Artifacts[0])
	next, stop := iter.Pull2(new(Runs).Replay(t.Context(), *row, 1, allAtOnce))
	defer stop()
	row = nil
	for want := range uint64(3) {
		if f, err, ok := next(); !ok || err != nil || f.Seq != want+1 {
			t.Fatalf("%+v, %v, %v", f, err, ok)
		}
		runtime.GC()
		if kept.Value() != nil {
			t.Fatal("the artifacts are in memory")
		}
	}
}
