//go:build linux

package service_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

func inContext(session, name, code string) belljar.RunRequest {
	return belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.1", SessionID: session, Context: name, Code: code}}
}

// shows runs code, and also returns the results.
func (b *bench) shows(req belljar.RunRequest) (result, []belljar.Result) {
	b.t.Helper()
	r := b.run(req)
	list, _, err := belljar.Results(b.service.As(service.Local()).Runs().Frames(b.context(), r.ID, 1))
	if err != nil {
		b.t.Fatal(err)
	}
	return r, list
}

// Code in a context is a normal run, with its results in the log.
func TestContexts(t *testing.T) {
	b := newBench(t, limited(func(l *belljar.Limits) { l.GraceSec = patience.Seconds() })) // an interrupt keeps the variables even on a busy machine
	id := b.open().ID
	all := b.service.As(service.Local()).Contexts()
	if _, err := all.Create(t.Context(), id, belljar.ContextSpec{Language: "ruby"}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
	if _, err := all.Create(t.Context(), id, belljar.ContextSpec{Language: "py", Name: "lost", Cwd: "nope"}); belljar.CodeOf(err) != belljar.CodeInvalidRequest || !strings.Contains(err.Error(), "nope") {
		t.Errorf("%v", err)
	}
	if list, err := all.List(t.Context(), id); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	made, err := all.Create(t.Context(), id, belljar.ContextSpec{Language: "py", Name: "data"})
	if err != nil || made.Name != "data" || made.Language != "python" || made.State != belljar.ContextIdle || made.Runs != 0 {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := all.Create(t.Context(), id, belljar.ContextSpec{Language: "js", Name: "data"}); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
	if again, err := all.Create(t.Context(), id, belljar.ContextSpec{Language: "python", Name: "data"}); err != nil || again.CreatedAt != made.CreatedAt {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := all.Create(t.Context(), id, belljar.ContextSpec{Language: "py", Name: "data", Cwd: "src"}); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
	if _, list := b.shows(inContext(id, "data", "x = 41\n1")); len(list) != 1 || list[0].Count != 1 {
		t.Errorf("%+v", list)
	}
	r, list := b.shows(inContext(id, "data", "print('out')\nx + 1"))
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "out\n" || r.Shell != nil || r.Context == nil || *r.Context != (belljar.ContextRun{Name: "data", Language: "python", State: belljar.ShellKept}) {
		t.Errorf("%q %+v", r.stdout, r.Run)
	}
	if len(list) != 1 || list[0].Type != belljar.ResultValue || list[0].Data["text/plain"] != "42" {
		t.Errorf("%+v", list)
	}
	// A result that does not fit into a frame keeps its order.
	_, list = b.shows(inContext(id, "data", "display({'text/html': 'é' * 200000, 'text/plain': 'big'}, raw=True); display(2)"))
	if len(list) != 2 || len(list[0].Data["text/html"].(string)) != 400000 || list[1].Data["text/plain"] != "2" {
		t.Errorf("%d results", len(list))
	}
	r, list = b.shows(inContext(id, "data", "1/0"))
	if r.want(t, belljar.PhaseFailed, 1, belljar.ReasonNonZeroExit); len(list) != 1 || list[0].Name != "ZeroDivisionError" || !strings.Contains(r.stderr, "ZeroDivisionError") {
		t.Errorf("%+v %q", list, r.stderr)
	}
	// A timeout keeps the variables. The end of the interpreter loses them.
	slow := inContext(id, "data", "import time; time.sleep(1000)")
	slow.TimeoutSec = 0.5
	if r := b.run(slow); r.Phase != belljar.PhaseTimedOut || r.Context.State != belljar.ShellKept {
		t.Errorf("%+v %+v", r.Run, r.Context)
	}
	if _, list := b.shows(inContext(id, "data", "x")); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	if r := b.run(inContext(id, "data", "import os; os._exit(3)")); *r.ExitCode != 3 || r.Context.State != belljar.ShellReplaced {
		t.Errorf("%+v %+v", r.Run, r.Context)
	}
	if _, list := b.shows(inContext(id, "data", "x")); len(list) != 1 || list[0].Name != "NameError" {
		t.Errorf("%+v", list)
	}
	// Its earlier code can be replayed when it has no interpreter.
	replay := inContext(id, "data", "x, y, open('log').read()")
	replay.Replay = true
	if r, list := b.shows(replay); r.ReasonCode != belljar.ReasonNonZeroExit || len(list) != 1 || list[0].Name != "NameError" || r.Context.Replayed != 0 {
		t.Errorf("%+v %+v", r.Run, list)
	}
	b.run(inContext(id, "data", "import os; os._exit(0)")) // not replayed
	// Replays begin with this code, in the next interpreter.
	b.run(inContext(id, "data", "open('log', 'a').write('once ')\nx = 43; y = 1; print('shown'); 1/0"))
	b.run(inContext(id, "data", "import os; os.kill(os.getpid(), 9)"))
	if r, list := b.shows(replay); r.stdout != "" || len(list) != 1 || list[0].Data["text/plain"] != "(43, 1, 'once once ')" || r.Context.Replayed != 1 || r.Context.State != belljar.ShellKept {
		t.Errorf("%q %+v %+v", r.stdout, r.Context, list)
	}
	b.run(inContext(id, "data", "assert open('log').read().count('once') < 3"))
	b.run(inContext(id, "data", "import os; os._exit(1)"))
	for range 2 {
		if r := b.run(replay); r.ReasonCode != belljar.ReasonExecFailed || !strings.Contains(r.Message, "this time it ended with status 1") || r.Context.Replayed != 0 {
			t.Errorf("%+v %+v", r.Run, r.Context)
		}
	}
	b.run(inContext(id, "data", "x = 1")) // replays begin here
	b.run(inContext(id, "data", "import os; os._exit(0)"))
	replay.Code = "x"
	if r, list := b.shows(replay); len(list) != 1 || list[0].Data["text/plain"] != "1" || r.Context.Replayed != 1 {
		t.Errorf("after a replay that failed: %s, %+v, %+v", r.Message, r.Context, list)
	}
	// With a language the context is created. bash keeps its state, too.
	if _, err := b.service.As(service.Local()).Runs().Start(t.Context(), inContext(id, "none", "1")); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("%v", err)
	}
	sh := inContext(id, "sh", "cd /tmp; y=1")
	sh.Language = "bash"
	b.run(sh).want(t, belljar.PhaseCompleted, 0, "")
	if r := b.run(inContext(id, "sh", "echo $y; pwd")); r.stdout != "1\n/tmp\n" || r.Context.Language != "bash" {
		t.Errorf("%q", r.stdout)
	}
	if s, err := b.service.As(service.Local()).Sessions().Get(b.context(), id); err != nil || s.Cwd != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if c, err := all.Complete(t.Context(), id, "data", "import o\no.pa"); err != nil || c.Word != "o.pa" {
		t.Errorf("%+v, %v", c, err)
	}
	// An error in JavaScript has its position.
	js := inContext(id, "js", "1\nlet 5 = 3")
	js.Language = "js"
	if r := b.run(js); r.Failure == nil || r.Failure.Type != "SyntaxError" || len(r.Failure.Frames) != 1 || r.Failure.Frames[0].File != "<cell-1>" || r.Failure.Frames[0].Line != 2 {
		t.Errorf("%+v", r.Failure)
	}
	if r := b.run(inContext(id, "js", "function f() { null.x }\nawait f()")); r.Failure == nil || len(r.Failure.Frames) != 2 || r.Failure.Frames[0].Function != "f" || r.Failure.Frames[1].Line != 2 {
		t.Errorf("%+v", r.Failure)
	}
	if err := all.Delete(t.Context(), id, "js"); err != nil {
		t.Error(err)
	}
	// Another caller cannot see the contexts.
	other := b.service.As(belljar.Caller{ID: "other"}).Contexts()
	if _, err := other.List(t.Context(), id); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("%v", err)
	}
	// Code waits for its turn, and a restart cancels the running code.
	b.run(inContext(id, "data", "x = 1"))
	first, err := b.service.As(service.Local()).Runs().Start(t.Context(), inContext(id, "data", "print('up', flush=True)\nimport time\ntime.sleep(1000)"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.service.As(service.Local()).Runs().Start(t.Context(), inContext(id, "data", "2"))
	if err != nil || second.Phase != belljar.PhaseQueued {
		t.Fatalf("%+v, %v", second, err)
	}
	for f, err := range b.service.As(service.Local()).Runs().Frames(b.context(), first.ID, 1) {
		if err != nil || f.Type == belljar.FrameStdout {
			break
		}
	}
	if list, err := all.List(t.Context(), id); err != nil || len(list) != 2 || list[0].Name != "data" || list[0].State != belljar.ContextBusy {
		t.Errorf("%+v, %v", list, err)
	}
	again, err := all.Restart(t.Context(), id, "data")
	if err != nil || again.State != belljar.ContextIdle {
		t.Errorf("%+v, %v", again, err)
	}
	for _, one := range []belljar.Run{first, second} {
		if ended, _, err := belljar.Collect(b.context(), b.service.As(service.Local()).Runs(), one.ID); err != nil || ended.Phase != belljar.PhaseKilled || ended.ReasonCode != belljar.ReasonCanceledByUser {
			t.Errorf("%+v, %v", ended, err)
		}
	}
	if _, list := b.shows(inContext(id, "data", "x")); len(list) != 1 || list[0].Name != "NameError" {
		t.Errorf("%+v", list)
	}
	if r, _ := b.shows(replay); r.Context.Replayed != 0 {
		t.Errorf("after a restart: %+v", r.Context)
	}
	for range 2 {
		if err := all.Delete(t.Context(), id, "data"); err != nil {
			t.Error(err)
		}
	}
	if list, err := all.List(t.Context(), id); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A context that cannot be created leaves neither its name nor its shell at the agent.
func TestContextsThatDoNotStart(t *testing.T) {
	b := newBench(t)
	id := b.open().ID
	all := b.service.As(service.Local()).Contexts()
	for i := range 20 { // more than an agent has shells
		spec := belljar.ContextSpec{Language: "python", Name: fmt.Sprint(i), Cwd: "nope"}
		if _, err := all.Create(t.Context(), id, spec); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Fatalf("%d: %v", i, err)
		}
	}
	b.in(id, "touch file")
	if _, err := all.Create(t.Context(), id, belljar.ContextSpec{Language: "python", Cwd: "file"}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("in a file: %v", err)
	}
	made, err := all.Create(t.Context(), id, belljar.ContextSpec{Language: "bash", Name: "0"})
	if err != nil || made.Language != "bash" || made.State != belljar.ContextIdle {
		t.Errorf("%+v, %v", made, err)
	}
	if r := b.run(inContext(id, "0", "pwd")); !strings.HasSuffix(r.stdout, "/workspace\n") {
		t.Errorf("%q %+v", r.stdout, r.Run)
	}
}

// A session has a maximum of contexts, and an idle interpreter ends.
func TestContextLimits(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Contexts = service.ContextLimits{Most: 1, Idle: 2 * time.Second} })
	id := b.open().ID
	all := b.service.As(service.Local()).Contexts()
	made, err := all.Create(t.Context(), id, belljar.ContextSpec{Language: "bash"})
	if err != nil || made.Name != "bash" {
		t.Fatalf("%+v, %v", made, err)
	}
	var many sync.WaitGroup
	for i := range 100 {
		many.Go(func() {
			spec := belljar.ContextSpec{Language: "python", Name: fmt.Sprint(i)}
			if _, err := all.Create(t.Context(), id, spec); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
				t.Errorf("%v", err)
			}
		})
	}
	many.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		list, err := all.List(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if list[0].State == belljar.ContextStopped {
			break
		}
	}
	if r := b.run(inContext(id, "bash", "echo new")); r.stdout != "new\n" || r.Context.State != belljar.ShellReplaced {
		t.Errorf("%q %+v", r.stdout, r.Context)
	}
}
