//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// A context outlives its server: running code continues, its results are complete, and the variables remain.
func TestContextOutlivesTheServer(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data)
	c := s.client()
	id := s.session(c, nil).ID
	code := func(text string) belljar.RunRequest {
		return belljar.RunRequest{RunSpec: belljar.RunSpec{
			SpecVersion: belljar.SpecVersion, SessionID: id, Context: "python", Language: "python", Code: text, TimeoutSec: patience.Seconds(),
		}}
	}
	if run, _, err := belljar.Finish(t.Context(), c.Runs(), code("x = 41"), patience); err != nil || run.Phase != belljar.PhaseCompleted {
		t.Fatalf("%+v, %v", run, err)
	}
	run, err := c.Runs().Start(t.Context(), code(`import os, time
display({"text/html": "é" * 100000}, raw=True)
print("up", flush=True)
while not os.path.exists("/workspace/go"): time.sleep(0.01)
display({"text/html": "ü" * 100000}, raw=True)
x + 1`))
	if err != nil {
		t.Fatal(err)
	}
	awaitOutput(t, c, run)
	s.kill()
	s = serve(t, data)
	c = s.client()
	if _, err := c.Files().Write(t.Context(), id, belljar.FileWrite{Path: "go"}); err != nil {
		t.Fatal(err)
	}
	_, out, err := belljar.Collect(t.Context(), c.Runs(), run.ID)
	if err != nil || len(out.Results) != 3 || out.Results[2].Data["text/plain"] != "42" || out.ResultsTruncated {
		t.Fatalf("%d results, %v", len(out.Results), err)
	}
	for _, r := range out.Results[:2] {
		if html, _ := r.Data["text/html"].(string); len(html) != 200_000 {
			t.Errorf("%d bytes of HTML", len(html))
		}
	}
	list, err := c.Contexts().List(t.Context(), id)
	if err != nil || len(list) != 1 || list[0].Name != "python" || list[0].Language != "python" || list[0].State != belljar.ContextIdle {
		t.Errorf("%+v, %v", list, err)
	}
	after, out, err := finished(t, c, code("x"))
	if err != nil || after.Context.State != belljar.ShellKept || len(out.Results) != 1 {
		t.Errorf("%+v, %v", after, err)
	}
	// Earlier code can be executed again, too.
	if lost, _, err := finished(t, c, code("import os; os._exit(1)")); err != nil || lost.Context.State != belljar.ShellReplaced {
		t.Errorf("%+v, %v", lost, err)
	}
	again := code("x")
	again.Replay = true
	if after, out, err = finished(t, c, again); err != nil || after.Context.Replayed != 3 || len(out.Results) != 1 || out.Results[0].Data["text/plain"] != "41" {
		t.Errorf("%+v %+v, %v", after.Context, out.Results, err)
	}
	done, err := c.Contexts().Complete(t.Context(), id, "python", "os.pat")
	if err != nil || !slices.Equal(done.Matches, []string{"os.path", "os.pathconf", "os.pathconf_names", "os.pathsep"}) {
		t.Errorf("%+v, %v", done, err)
	}
	if err := c.Contexts().Delete(t.Context(), id, "python"); err != nil {
		t.Error(err)
	}
	if err := c.Sessions().Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// A session without a free process for an interpreter reports that.
func TestContextWithoutProcesses(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.client()
	id := s.session(c, func(spec *belljar.SessionSpec) { spec.Resources.Pids = 20 }).ID
	run, err := c.Runs().Start(t.Context(), belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: id, TimeoutSec: patience.Seconds(), Command: []string{"python3", "-c", `import os, signal
try:
    while os.fork(): pass
except BlockingIOError: print("full", flush=True)
signal.pause()`},
	}})
	if err != nil {
		t.Fatal(err)
	}
	awaitOutput(t, c, run)
	for n := 0; err == nil && n < 20; n++ { // after its start the run may have left room for one
		_, err = c.Contexts().Create(t.Context(), id, belljar.ContextSpec{Language: "bash", Name: fmt.Sprint("b", n)})
	}
	if belljar.CodeOf(err) != belljar.CodeQuotaExceeded || !strings.Contains(err.Error(), "as many processes as it may have (20)") {
		t.Errorf("%v", err)
	}
	if err := c.Runs().Cancel(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := belljar.Collect(t.Context(), c.Runs(), run.ID); err != nil {
		t.Fatal(err)
	}
	if made, err := c.Contexts().Create(t.Context(), id, belljar.ContextSpec{Language: "bash"}); err != nil || made.State != belljar.ContextIdle {
		t.Errorf("later: %+v, %v", made, err)
	}
}

// awaitOutput waits until a run has printed something.
func awaitOutput(t *testing.T, c belljar.Service, run belljar.Run) {
	t.Helper()
	for f, err := range c.Runs().Frames(t.Context(), run.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == belljar.FrameStdout {
			return
		}
	}
	t.Fatal("it ended without output")
}

func finished(t *testing.T, c belljar.Service, req belljar.RunRequest) (belljar.Run, belljar.Output, error) {
	run, out, err := belljar.Finish(t.Context(), c.Runs(), req, patience)
	if out == nil {
		out = &belljar.Output{}
	}
	return run, *out, err
}
