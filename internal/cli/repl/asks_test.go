package repl

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// starts records the request for a run, and refuses it.
type starts struct {
	belljar.Runs
	req belljar.RunRequest
}

// service provides only runs.
type service struct {
	belljar.Service
	runs belljar.Runs
}

func (s service) Runs() belljar.Runs { return s.runs }

func (s *starts) Start(_ context.Context, req belljar.RunRequest) (belljar.Run, error) {
	s.req = req
	return belljar.Run{}, errors.New("refused")
}

// Only code that can ask for a line gets an open input: a read in bash would wait until its timeout.
func TestInputOfCode(t *testing.T) {
	for language, want := range map[string]bool{"python": true, "ipython": true, "javascript": true, "bash": false} {
		s := &starts{}
		r := REPL{Service: service{runs: s}, Context: belljar.Context{Language: language}, lines: &typed{}}
		if _, err := r.execute(t.Context(), "x"); err == nil || s.req.Interactive != want || s.req.Code != "x" {
			t.Errorf("%s: %+v, %v", language, s.req, err)
		}
	}
}

// floods is a run whose output is truncated.
type floods struct{ belljar.Runs }

func (floods) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	return belljar.Run{}, nil
}

func (floods) Get(context.Context, string) (belljar.Run, error) {
	return belljar.Run{Phase: belljar.PhaseCompleted, Truncated: true}, nil
}

func (floods) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		_ = yield(belljar.Frame{Type: belljar.FrameStdout, Output: []byte("1\n")}, nil) &&
			yield(belljar.Frame{Type: belljar.FrameTruncated, Reason: "log_cap"}, nil)
	}
}

// Dropped output leaves a notice in its place.
func TestOutputIsCut(t *testing.T) {
	var out, notes bytes.Buffer
	r := REPL{Service: service{runs: floods{}}, Context: belljar.Context{Language: "python"}, Stdout: &out, Notice: &notice.Writer{Stderr: &notes}}
	if status, err := r.execute(t.Context(), "x"); status != 0 || err != nil || out.String() != "1\n" || !strings.Contains(notes.String(), "log_cap") {
		t.Errorf("%d, %v, %q, %q", status, err, &out, &notes)
	}
}
