//go:build linux

package service_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service"
)

// untilGone is code that runs as long as a file exists, and reports its start with another file.
const untilGone = "import os, time\nif os.path.exists('hold'):\n    open('held', 'w')\nwhile os.path.exists('hold'):\n    time.sleep(.001)\n"

// exists reports whether a file exists in a session's workspace.
func (b *bench) exists(id, name string) bool {
	_, err := b.service.As(service.Local()).Files().Stat(b.context(), id, name)
	return err == nil
}

// A client that cancels a completion leaves no command at the agent, which has a maximum of them.
func TestCompletionGivenUp(t *testing.T) {
	b := newBench(t)
	x := b.open()
	all := b.service.As(service.Local()).Contexts()
	if _, err := all.Create(t.Context(), x.ID, belljar.ContextSpec{Language: "python"}); err != nil {
		t.Fatal(err)
	}
	b.run(inContext(x.ID, "python", "class Slow:\n  def __dir__(self):\n"+strings.ReplaceAll("    "+untilGone, "\n", "\n    ")+"return []\nslow = Slow()"))
	b.in(x.ID, "touch hold")
	ctx, giveUp := context.WithCancel(b.context())
	over := make(chan error, 1)
	go func() {
		_, err := all.Complete(ctx, x.ID, "python", "slow.")
		over <- err
	}()
	b.until(func() bool { return b.exists(x.ID, "held") })
	giveUp()
	if err := <-over; err == nil {
		t.Error("it has an answer")
	}
	b.in(x.ID, "rm hold")
	box, err := b.fake.Attach(t.Context(), x.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.until(func() bool {
		known, err := agent.New(box.Dial).List(t.Context())
		return err == nil && len(known) == 0
	})
	if r := b.run(inContext(x.ID, "python", "print(type(slow).__name__)")); r.stdout != "Slow\n" {
		t.Errorf("%q, %+v", r.stdout, r.Run)
	}
}

// A run that is cancelled during a replay does not leave half of the variables.
func TestReplayCancelled(t *testing.T) {
	b := newBench(t)
	x := b.open()
	first := inContext(x.ID, "python", "x = 1")
	first.Language = "python"
	b.run(first)
	b.run(inContext(x.ID, "python", untilGone))
	b.run(inContext(x.ID, "python", "y = 2"))
	b.run(inContext(x.ID, "python", "os._exit(0)"))
	b.in(x.ID, "touch hold")
	again := inContext(x.ID, "python", "print(x, y)")
	again.Replay = true
	run := b.start(again)
	b.until(func() bool { return b.exists(x.ID, "held") })
	if err := b.Cancel(b.context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if r := b.follow(run.ID); r.Phase != belljar.PhaseKilled {
		t.Errorf("%+v", r.Run)
	}
	b.in(x.ID, "rm hold")
	if r := b.run(again); r.stdout != "1 2\n" || r.Context.Replayed != 3 {
		t.Errorf("%q, %+v, %+v", r.stdout, r.Run, r.Context)
	}
}

// An idle interpreter may end. Its earlier code is replayed from where it began, not from where it ended.
func TestReplayAfterIdleEnd(t *testing.T) {
	b := newBench(t)
	x := b.open()
	first := inContext(x.ID, "python", "import os; os.makedirs('deep', exist_ok=True); os.chdir('deep'); x = 1")
	first.Language = "python"
	b.run(first)
	b.in(x.ID, "kill -9 "+b.run(inContext(x.ID, "python", "print(os.getpid())")).stdout)
	b.until(func() bool {
		list, err := b.service.As(service.Local()).Contexts().List(b.context(), x.ID)
		return err == nil && len(list) == 1 && list[0].State == belljar.ContextStopped
	})
	if made, err := b.service.As(service.Local()).Contexts().Create(b.context(), x.ID, belljar.ContextSpec{Language: "python"}); err != nil || made.State != belljar.ContextStopped {
		t.Errorf("one that is there is made: %+v, %v", made, err)
	}
	again := inContext(x.ID, "python", "print(x, os.path.basename(os.getcwd()), flush=True); os._exit(0)")
	again.Replay = true
	for n := range 2 { // in the second round, code has ended it
		if r := b.run(again); r.stdout != "1 deep\n" || r.Context.Replayed != 2 {
			t.Errorf("%d: %q, %+v, %+v", n, r.stdout, r.Run, r.Context)
		}
	}
}

// Code that began in a new interpreter without a replay is where replays begin, also in the next process: the variables before it are lost.
func TestReplayAfterLoss(t *testing.T) {
	t.Run("killed from outside", func(t *testing.T) { testReplayAfterLoss(t, false) })
	t.Run("ended by code", func(t *testing.T) { testReplayAfterLoss(t, true) })
}

func testReplayAfterLoss(t *testing.T, byCode bool) {
	w := newWorld(t)
	p := w.boot()
	x := p.open()
	kill := func() {
		t.Helper()
		if byCode {
			p.run(inContext(x.ID, "python", "import os; os._exit(0)"))
			return
		}
		p.in(x.ID, "kill -9 "+p.run(inContext(x.ID, "python", "import os; print(os.getpid())")).stdout)
		p.until(func() bool {
			list, err := p.service.As(service.Local()).Contexts().List(p.context(), x.ID)
			return err == nil && len(list) == 1 && list[0].State == belljar.ContextStopped
		})
	}
	first := inContext(x.ID, "python", "x = 1")
	first.Language = "python"
	p.run(first)
	kill()
	if r := p.run(inContext(x.ID, "python", "assert 'x' not in globals(); y = 2")); r.ExitCode == nil || *r.ExitCode != 0 || (r.Context.State == belljar.ShellReplaced) == byCode {
		t.Errorf("%+v", r.Context)
	}
	p.run(inContext(x.ID, "python", "z = y + 1"))
	again := inContext(x.ID, "python", "print(z, 'x' in globals())")
	again.Replay = true
	each := 3 // with the code that prints the process's id
	if byCode {
		each = 2
	}
	for n := range 2 {
		kill()
		if n == 1 {
			p.kill()
			p = w.boot()
		}
		if r := p.run(again); r.stdout != "3 False\n" || r.Context.Replayed != each+n*(each-1) {
			t.Errorf("%d: %q, %+v, %+v", n, r.stdout, r.Run, r.Context)
		}
	}
	p.end(x)
}

// Code without a replay after one that failed is where replays begin, also if the server was killed in between.
func TestReplayAfterFailure(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	x := p.open()
	first := inContext(x.ID, "python", "import os; os.mkdir('once')") // fails the second time
	first.Language = "python"
	p.run(first)
	leave, again := inContext(x.ID, "python", "os._exit(0)"), inContext(x.ID, "python", "print(x)")
	again.Replay = true
	p.run(leave)
	p.run(again).want(t, belljar.PhaseFailed, -1, belljar.ReasonExecFailed)
	p.kill()
	p = w.boot()
	p.run(inContext(x.ID, "python", "import os; x = 1"))
	p.run(leave)
	if r := p.run(again); r.stdout != "1\n" || r.Context.Replayed != 1 {
		t.Errorf("%q, %+v, %+v", r.stdout, r.Run, r.Context)
	}
	p.end(x)
}

// Code that is too long to be replayed, and from before a hibernation, prevents no replay of code that began without it.
func TestReplayAfterRefusal(t *testing.T) {
	b := newBench(t)
	x := b.open()
	first := inContext(x.ID, "python", "#"+strings.Repeat("x", 17<<10))
	first.Language = "python"
	b.run(first)
	if _, err := b.hibernate(x.ID, true); err != nil {
		t.Fatal(err)
	}
	again := inContext(x.ID, "python", "print(x)")
	again.Replay = true
	b.run(again).want(t, belljar.PhaseFailed, -1, belljar.ReasonExecFailed)
	b.run(inContext(x.ID, "python", "import os; x = 1"))
	b.run(inContext(x.ID, "python", "os._exit(0)"))
	if r := b.run(again); r.stdout != "1\n" || r.Context.Replayed != 1 {
		t.Errorf("%q, %+v, %+v", r.stdout, r.Run, r.Context)
	}
}

// The first code after a hibernation counts like other code: its variables stay after an error, and it may end its interpreter.
func TestReplayAfterHibernation(t *testing.T) {
	b := newBench(t)
	x := b.open()
	sleep := func() {
		t.Helper()
		if _, err := b.hibernate(x.ID, true); err != nil {
			t.Fatal(err)
		}
	}
	first := inContext(x.ID, "python", "x = 1")
	first.Language = "python"
	b.run(first)
	sleep()
	if r := b.run(inContext(x.ID, "python", "y = 2; 1/0")); r.ReasonCode != belljar.ReasonNonZeroExit || r.Context.State != belljar.ContextNew {
		t.Errorf("%+v %+v", r.Run, r.Context)
	}
	sleep()
	if r := b.run(inContext(x.ID, "python", "import os; os._exit(0)")); r.Context.State != belljar.ShellReplaced {
		t.Errorf("%+v %+v", r.Run, r.Context)
	}
	again := inContext(x.ID, "python", "print(x, y)")
	again.Replay = true
	if r := b.run(again); r.stdout != "1 2\n" || r.Context.Replayed != 2 {
		t.Errorf("%q, %+v, %+v", r.stdout, r.Run, r.Context)
	}
}

// A refused run creates no context, since a session has a maximum of them.
func TestRefusedRunMakesNoContext(t *testing.T) {
	b := newBench(t)
	x := b.open(func(r *belljar.SessionRequest) { r.MaxRuns = 1 })
	code := inContext(x.ID, "one", "true")
	code.Language = "bash"
	b.run(code)
	code.Context = "two"
	if _, err := b.Start(b.context(), code); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("%v", err)
	}
	if list, err := b.service.As(service.Local()).Contexts().List(t.Context(), x.ID); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// creating is a logbook that calls a function before it creates each log.
type creating struct {
	logbook.Book
	before func()
}

func (c *creating) Create(id string) (logbook.Log, error) {
	if c.before != nil {
		c.before()
	}
	return c.Book.Create(id)
}

// Code for a context that is deleted before it begins is executed by no other interpreter, and the name can be reused.
func TestContextDeletedBeforeItsCode(t *testing.T) {
	book := &creating{}
	b := newBench(t, func(o *service.Options) { book.Book = o.Logs; o.Logs = book })
	x := b.open()
	all := b.service.As(service.Local()).Contexts()
	spec := belljar.ContextSpec{Language: "python"}
	if _, err := all.Create(t.Context(), x.ID, spec); err != nil {
		t.Fatal(err)
	}
	book.before = func() {
		if err := all.Delete(t.Context(), x.ID, "python"); err != nil {
			t.Error(err)
		}
	}
	late := b.run(inContext(x.ID, "python", "echo shell"))
	book.before = nil
	if late.ReasonCode != belljar.ReasonExecFailed || late.stdout != "" || !strings.Contains(late.Message, "was deleted") {
		t.Errorf("%q, %+v", late.stdout, late.Run)
	}
	if _, err := all.Create(t.Context(), x.ID, spec); err != nil {
		t.Error(err)
	}
	if r := b.run(inContext(x.ID, "python", "print('python')")); r.stdout != "python\n" {
		t.Errorf("%q, %+v", r.stdout, r.Run)
	}
}

// Completions in bash are quoted for code: file names with blanks, and variables after a $.
func TestBashCompletion(t *testing.T) {
	b := newBench(t)
	x := b.open()
	b.in(x.ID, "touch 'qx file (1).txt'")
	first := inContext(x.ID, "bash", "qx_long_name=1")
	first.Language = "bash"
	b.run(first)
	for code, want := range map[string]belljar.Completion{
		"cat qx":               {Word: "qx", Matches: []string{`qx\ file\ \(1\).txt`, "qx_long_name"}},
		`cat qx\ f`:            {Word: `qx\ f`, Matches: []string{`qx\ file\ \(1\).txt`}},
		"echo $qx_lo":          {Word: "qx_lo", Matches: []string{"qx_long_name"}},
		`echo "1" "${qx_lo`:    {Word: "qx_lo", Matches: []string{"qx_long_name"}},
		"true &&\\\nunset qx_": {Word: "qx_", Matches: []string{"qx_long_name"}},
	} {
		got, err := b.service.As(service.Local()).Contexts().Complete(t.Context(), x.ID, "bash", code)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", code, got, err)
		}
	}
}

// Objects that are slow to list their names have no completions. Neither that nor the interruption loses the variables.
func TestSlowCompletion(t *testing.T) {
	b := newBench(t)
	x := b.open()
	first := inContext(x.ID, "python", `import signal, time
class Slow:
    def __dir__(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        time.sleep(5)  # longer than a completion, and than the least grace
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        return []
slow = Slow()`)
	first.Language = "python"
	b.run(first)
	if c, err := b.service.As(service.Local()).Contexts().Complete(t.Context(), x.ID, "python", "slow."); err != nil || c.Matches == nil || len(c.Matches) > 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if r := b.run(inContext(x.ID, "python", "print(type(slow).__name__)")); r.stdout != "Slow\n" || r.Context.State != belljar.ShellKept {
		t.Errorf("%q, %+v, %+v", r.stdout, r.Run, r.Context)
	}
}
