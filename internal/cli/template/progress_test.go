package template

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// slow is a server whose build advances one step at each poll.
type slow struct {
	belljar.Service
	looks []belljar.Template
	built chan struct{}
}

func (s *slow) Templates() belljar.Templates { return slowTemplates{s: s} }
func (s *slow) Runs() belljar.Runs           { return slowRuns{} }

type slowTemplates struct {
	belljar.Templates
	s *slow
}

func (x slowTemplates) Get(context.Context, string) (belljar.Template, error) {
	next := x.s.looks[0]
	if x.s.looks = x.s.looks[1:]; len(x.s.looks) == 0 {
		close(x.s.built)
	}
	if next.Name == "" {
		return next, errors.New("the connection is lost")
	}
	return next, nil
}

type slowRuns struct{ belljar.Runs }

func (slowRuns) Frames(_ context.Context, id string, _ uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		_ = yield(belljar.Frame{Type: belljar.FrameStdout, Output: []byte("out of " + id + "\n")}, nil) &&
			yield(belljar.Frame{Type: belljar.FrameStderr, Output: []byte("err\n")}, nil) && yield(belljar.Frame{Type: belljar.FrameEvent}, nil)
	}
}

// Each step of a build is shown once, with the output of its commands.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look := func(step, run string) belljar.Template {
			return belljar.Template{TemplateSpec: belljar.TemplateSpec{Name: "data"}, Building: step, BuildRunID: run}
		}
		s := &slow{built: make(chan struct{}), looks: []belljar.Template{
			{}, look("create", ""), look("create", ""), look("run[0]", "r0"), look("run[0]", "r0"), look("run[2]", "r2"), look("save", ""), look("", ""),
		}}
		var out bytes.Buffer
		last := follow(t.Context(), &notice.Writer{Stderr: &out}, s, "data", s.built)
		const want = "belljar: template data: create\nbelljar: template data: run[0] (run r0)\nout of r0\nerr\n" +
			"belljar: template data: run[2] (run r2)\nout of r2\nerr\nbelljar: template data: save\n"
		if out.String() != want || last != "r2" {
			t.Errorf("%s: %s", last, &out)
		}
	})
}

// The output of the failed command is printed completely, and once.
func TestPrinted(t *testing.T) {
	err := &belljar.Error{Details: map[string]any{"run_id": "r1", "output": "first\nlast\n"}}
	for shown, want := range map[string]string{"": "first\nlast\n", "r0": "first\nlast\n", "r1": ""} {
		var out bytes.Buffer
		if printed(&out, err, shown); out.String() != want {
			t.Errorf("after %q: %q", shown, &out)
		}
	}
	var out bytes.Buffer
	if printed(&out, errors.New("other"), ""); out.Len() > 0 {
		t.Errorf("%q", &out)
	}
}
