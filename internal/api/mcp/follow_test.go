package mcp

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// lateRuns is an engine whose run ends between the end of the wait and the answer.
type lateRuns struct{ belljar.Runs }

type lateService struct{ belljar.Service }

func (lateService) Runs() belljar.Runs { return lateRuns{} }

func (lateRuns) Finish(context.Context, belljar.RunRequest, time.Duration) (belljar.Run, *belljar.Output, error) {
	return belljar.Run{ID: "r", Phase: belljar.PhaseCompleted}, nil, nil
}

func (lateRuns) Get(context.Context, string) (belljar.Run, error) {
	return belljar.Run{ID: "r", Phase: belljar.PhaseCompleted}, nil
}

func (lateRuns) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		yield(belljar.Frame{Seq: 1, Type: belljar.FrameStdout, Output: []byte("hi")}, nil)
	}
}

// The answer about a run that ended just after the wait has its output.
func TestEndAfterWait(t *testing.T) {
	c := &call{Context: t.Context(), service: lateService{}, session: &clientSession{}}
	_, out, err := c.finish(belljar.RunSpec{}, time.Second)
	if err != nil || out == nil || out.Stdout != "hi" {
		t.Errorf("%+v, %v", out, err)
	}
}

// stuckRuns is an engine that cannot record the end of a run: it waits no longer, and the run is still running.
type stuckRuns struct{ belljar.Runs }

type stuckService struct{ belljar.Service }

func (stuckService) Runs() belljar.Runs { return stuckRuns{} }

func (stuckRuns) Finish(context.Context, belljar.RunRequest, time.Duration) (belljar.Run, *belljar.Output, error) {
	return belljar.Run{ID: "r", Phase: belljar.PhaseRunning}, nil, nil
}

func (stuckRuns) Get(context.Context, string) (belljar.Run, error) {
	return belljar.Run{ID: "r", Phase: belljar.PhaseRunning}, nil
}

func (stuckService) Artifacts() belljar.Artifacts { return noArtifacts{} }

type noArtifacts struct{ belljar.Artifacts }

func (noArtifacts) List(context.Context, string) ([]belljar.Artifact, error) { return nil, nil }

// An end that cannot be recorded is reported without output.
func TestEndThatIsNotRecorded(t *testing.T) {
	c := &call{Context: t.Context(), service: stuckService{}, session: &clientSession{terms: Terms{MaxOutput: 100}, kit: &Kit{}}}
	reply, err := runCode(c, runInput{Code: "1"})
	if err != nil || !strings.Contains(reply.text, "running") {
		t.Errorf("%+v, %v", reply, err)
	}
}
