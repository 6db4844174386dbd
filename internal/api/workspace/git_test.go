package workspace

import (
	"context"
	"encoding/json"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/workspace"
)

// answering is an engine whose commands all end in the same way. It records the last request.
type answering struct {
	workspace.Engine
	runs *answeringRuns
}

func (a answering) Runs() belljar.Runs { return a.runs }

type answeringRuns struct {
	belljar.Runs
	run            belljar.Run
	stdout, stderr string
	asked          belljar.RunRequest
}

func (a *answeringRuns) Start(_ context.Context, asked belljar.RunRequest) (belljar.Run, error) {
	a.asked = asked
	return a.run, nil
}

func (a *answeringRuns) Get(context.Context, string) (belljar.Run, error) { return a.run, nil }

func (a *answeringRuns) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		_ = yield(belljar.Frame{Type: belljar.FrameStderr, Output: []byte(a.stderr)}, nil) &&
			yield(belljar.Frame{Type: belljar.FrameStdout, Output: []byte(a.stdout)}, nil)
	}
}

// gitCall returns a call in a workspace whose commands end like a.
func gitCall(t *testing.T, a *answeringRuns) *call {
	return &call{
		Workspace: workspace.Workspace{Engine: answering{runs: a}, Root: "/work/here"}, r: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil),
		door: &Door{opts: Options{ChatLifetime: time.Minute}, maxFile: 100, gits: api.NewShares(gitAtOnce, gitWait)},
	}
}

// Only git itself can report that there is no repository, or that a file is not in HEAD. A command that fails otherwise is an error: a front
// end that believed it would show a repository without changes.
func TestGitFails(t *testing.T) {
	for name, c := range map[string]struct {
		run                belljar.Run
		stderr             string
		status, diff, show string // JSON; "" is an error
		stdout             string
	}{
		"no git": {
			belljar.Run{ExitCode: new(127), ReasonCode: belljar.ReasonExecFailed}, "", `{"is_repo":false,"available":false,"files":[]}`,
			`{"diff":"","path":"a","error":"git is not available"}`, `{"content":null,"path":"a","error":"git is not available"}`, "",
		},
		"no repository": {
			belljar.Run{ExitCode: new(128)}, "fatal: not a git repository (or any of the parent directories): .git\n", `{"is_repo":false,"files":[]}`,
			`{"diff":"","path":"a","error":"Not a git repository"}`, `{"content":null,"path":"a","error":"Not a git repository"}`, "",
		},
		"not in HEAD": {
			belljar.Run{ExitCode: new(128)}, "fatal: path 'a' exists on disk, but not in 'HEAD'\n", "",
			`{"diff":"","path":"a","error":"Not in HEAD"}`, `{"content":null,"path":"a","error":"Not in HEAD"}`, "",
		},
		"old": {
			belljar.Run{ExitCode: new(128)}, "fatal: Not a valid object name HEAD:./a\n", "",
			`{"diff":"","path":"a","error":"Not in HEAD"}`, `{"content":null,"path":"a","error":"Not in HEAD"}`, "",
		},
		"a file HEAD": {
			run: belljar.Run{ExitCode: new(1)}, stdout: "diff --git a/HEAD b/a\n", diff: `{"diff":"","path":"a","error":"Not a git repository"}`,
		},
		"no process": {run: belljar.Run{ExitCode: new(126), ReasonCode: belljar.ReasonExecFailed}},
		"killed":     {run: belljar.Run{ExitCode: new(137)}},
		"no sandbox": {run: belljar.Run{}},
		"its own":    {run: belljar.Run{ExitCode: new(128)}, stderr: "fatal: Out of memory, malloc failed\n"},
	} {
		call := gitCall(t, &answeringRuns{run: c.run, stderr: c.stderr, stdout: c.stdout})
		for want, ask := range map[*string]func() (any, error){
			&c.status: call.gitStatus, &c.diff: func() (any, error) { return call.gitDiff("a") }, &c.show: func() (any, error) { return call.gitShow("a") },
		} {
			got, err := ask()
			raw, _ := json.Marshal(got)
			if *want == "" && belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || *want != "" && (err != nil || string(raw) != *want) {
				t.Errorf("%s: %s, %v, want %s", name, raw, err, *want)
			}
		}
	}
}

// A state that is too long ends with its last whole entry.
func TestGitStatusIsCut(t *testing.T) {
	line := "?? " + strings.Repeat("d/", 500) + "name\x00"
	long := strings.Repeat("?? a\x00", (gitBytes-500)/5) + line
	got, err := gitCall(t, &answeringRuns{run: belljar.Run{ExitCode: new(0)}, stdout: long}).gitStatus()
	if s, ok := got.(status); err != nil || !ok || !s.Truncated || len(s.Files.(map[string]string)) != 1 {
		t.Errorf("%.100v, %v", got, err)
	}
}

// Git before 2.32 reads the configuration of the home folder, which in the mode local is the workspace.
func TestGitHasNoHome(t *testing.T) {
	a := &answeringRuns{run: belljar.Run{ExitCode: new(0)}}
	if _, err := gitCall(t, a).gitStatus(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		if got := a.asked.Env[name]; got != "/nonexistent" {
			t.Errorf("%s is %q", name, got)
		}
	}
}
