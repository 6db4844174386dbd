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
	lists [][]string // runs of its session
	built chan struct{}
}

func (s *slow) Templates() belljar.Templates { return slowTemplates{s: s} }
func (s *slow) Runs() belljar.Runs           { return slowRuns{s: s} }

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

// slowRuns are the commands of a build.
type slowRuns struct {
	belljar.Runs
	s *slow
}

func (slowRuns) Get(_ context.Context, id string) (belljar.Run, error) {
	return belljar.Run{ID: id, SessionID: "session"}, nil
}

func (x slowRuns) List(_ context.Context, q belljar.RunQuery) (page belljar.RunPage, err error) {
	if q.SessionID != "session" || q.Sort != "created_at:asc" || len(x.s.lists) == 0 {
		return page, errors.New("it has none")
	}
	for _, id := range x.s.lists[0] {
		page.Items = append(page.Items, belljar.Run{ID: "other"}, belljar.Run{ID: id, Labels: map[string]string{"template": "data"}})
	}
	x.s.lists = x.s.lists[1:]
	return page, nil
}

func (slowRuns) Frames(_ context.Context, id string, _ uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		_ = yield(belljar.Frame{Type: belljar.FrameStdout, Output: []byte("out of " + id + "\n")}, nil) &&
			yield(belljar.Frame{Type: belljar.FrameStderr, Output: []byte("err\n")}, nil) && yield(belljar.Frame{Type: belljar.FrameEvent}, nil)
	}
}

// Each polled step of a build is shown once, and every command once with its output.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look := func(step, run string) belljar.Template {
			return belljar.Template{TemplateSpec: belljar.TemplateSpec{Name: "data"}, Building: step, BuildRunID: run}
		}
		s := &slow{built: make(chan struct{}), looks: []belljar.Template{
			{}, look("create", ""), look("create", ""), look("run[0]", "r0"), look("run[0]", "r0"), look("run[2]", "r2"), look("save", ""), look("", ""),
		}, lists: [][]string{{"r0"}, {"r0", "r1", "r2"}, {"r0", "r1", "r2", "r3"}}}
		var out bytes.Buffer
		p := &progress{w: &notice.Writer{Stderr: &out}, s: s, name: "data"}
		p.follow(t.Context(), s.built)
		p.rest(t.Context(), look("", "r3"), nil)
		want := "belljar: template data: create\n"
		for _, i := range []string{"0", "1", "2"} {
			want += "belljar: template data: run[" + i + "] (run r" + i + ")\nout of r" + i + "\nerr\n"
		}
		want += "belljar: template data: save\nbelljar: template data: run[3] (run r3)\nout of r3\nerr\n"
		if out.String() != want {
			t.Errorf("%s", &out)
		}
	})
}

// The output of the failed command is printed completely, and once.
func TestFailedCommand(t *testing.T) {
	failed := &belljar.Error{Details: map[string]any{"run_id": "r1", "output": "first\nlast\n"}}
	const r1 = "belljar: template data: run[0] (run r1)\nout of r1\nerr\n"
	for _, test := range []struct {
		shown string
		lists [][]string
		err   error
		want  string
	}{
		{"", nil, failed, "first\nlast\n"}, {"r0", nil, failed, "first\nlast\n"}, {"r1", nil, failed, ""}, {"", [][]string{{"r1"}}, failed, r1},
		{"", nil, errors.New("other"), ""},
	} {
		var out bytes.Buffer
		p := &progress{w: &notice.Writer{Stderr: &out}, s: &slow{lists: test.lists}, name: "data", run: test.shown}
		if p.rest(t.Context(), belljar.Template{}, test.err); out.String() != test.want {
			t.Errorf("after %q: %q, want %q", test.shown, &out, test.want)
		}
	}
}
