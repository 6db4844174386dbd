package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// patience limits every operation in a sandbox, on a slow and busy machine.
const patience = 8 * time.Minute

// jar is a sandbox under test and a client of its agent.
type jar struct {
	*testing.T
	o       Options
	ctx     context.Context
	runtime runtime.Runtime
	runtime.Sandbox
	agent *agent.Client
}

// open makes a runtime and a sandbox, which is destroyed at the end of the test.
func open(t *testing.T, o Options, change ...func(*runtime.Spec)) *jar {
	t.Helper()
	return create(t, o, o.New(t), change...)
}

func create(t *testing.T, o Options, r runtime.Runtime, change ...func(*runtime.Spec)) *jar {
	t.Helper()
	spec := o.spec()
	for _, c := range change {
		c(&spec)
	}
	ctx := within(t)
	s, err := r.Create(ctx, spec)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Destroy(context.Background()); err != nil {
			t.Errorf("destroy: %v", err)
		}
	})
	j := &jar{T: t, o: o, ctx: ctx, runtime: r, Sandbox: s, agent: agent.New(s.Dial)}
	if o.AgentUser {
		info, err := j.agent.Ping(ctx)
		if err != nil {
			t.Fatalf("identify the agent: %v", err)
		}
		j.o.UID, j.o.GID = info.UID, info.GID
	}
	return j
}

// common is a sandbox with [Options.spec], which parts of the suite use one after the other.
type common struct {
	t   *testing.T // of the suite
	jar *jar
}

// share returns the common sandbox, with an empty workspace before and after the test. Without isolation it makes a sandbox for the test
// alone.
func share(t *testing.T, o Options) *jar {
	t.Helper()
	if o.common == nil || !o.Isolated {
		return open(t, o)
	}
	if o.common.jar == nil {
		o.common.jar = open(o.common.t, o)
	}
	j := *o.common.jar
	j.T, j.ctx = t, within(t)
	t.Cleanup(func() { j.must("chmod -R u+rwX . 2>/dev/null; rm -rf ./* ./.[!.]*; ls -A | grep . && exit 1; true") })
	return &j
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// sub is the jar for a subtest.
func (j *jar) sub(name string, test func(*jar)) {
	j.T.Run(name, func(t *testing.T) {
		inner := *j
		inner.T, inner.ctx = t, within(t)
		test(&inner)
	})
}

// shared reports whether agent and programs are one user.
func (j *jar) shared() bool {
	j.Helper()
	caps, err := j.runtime.Probe(j.ctx)
	if err != nil {
		j.Fatal(err)
	}
	return caps.AgentUID == "shared"
}

// restart simulates a crash of the daemon, and attaches to the sandbox from another.
func (j *jar) restart() {
	j.Helper()
	j.runtime = j.o.Restart(j.T, j.runtime)
	s, err := j.runtime.Attach(j.ctx, j.ID())
	if err != nil {
		j.Fatalf("attach to the sandbox after a restart: %v", err)
	}
	j.Sandbox, j.agent = s, agent.New(s.Dial)
}

// command returns a command with the suite's user and environment.
func (j *jar) command(argv ...string) wire.Exec {
	return wire.Exec{
		ID:   belljar.NewID(),
		Argv: argv,
		Env:  []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"},
		UID:  j.o.UID, GID: j.o.GID,
		GraceMS: 1000,
		KillAll: true,
	}
}

// sh returns a shell command; args are its $1 and following.
func (j *jar) sh(script string, args ...string) wire.Exec {
	return j.command(append([]string{"/bin/sh", "-c", script, "sh"}, args...)...)
}

// outcome is the output and exit of a command.
type outcome struct {
	out, err string
	exit     wire.Exit
}

func (j *jar) start(e wire.Exec) *agent.Process {
	j.Helper()
	p, err := j.agent.Exec(j.ctx, e)
	if err != nil {
		j.Fatalf("start %q: %v", e.Argv, err)
	}
	j.Cleanup(func() { p.Close() })
	return p
}

// follow reads a process to its end.
func (j *jar) follow(p *agent.Process) outcome {
	j.Helper()
	var got outcome
	var out, err bytes.Buffer
	exit, e := p.Output(j.ctx, func(_ int64, s wire.Stream, b []byte) error {
		if s == wire.Stderr {
			err.Write(b)
		} else {
			out.Write(b)
		}
		return nil
	})
	got.out, got.err, got.exit = out.String(), err.String(), exit
	if e != nil {
		j.Fatalf("%v; stdout %.300q, stderr %.300q", e, got.out, got.err)
	}
	return got
}

func (j *jar) run(e wire.Exec) outcome {
	j.Helper()
	return j.follow(j.start(e))
}

// must runs a script that has to succeed and returns its output, trimmed.
func (j *jar) must(script string, args ...string) string {
	j.Helper()
	got := j.run(j.sh(script, args...))
	if got.exit.Code != 0 {
		j.Fatalf("%s: %+v, stdout %.300q, stderr %.300q", script, got.exit, got.out, got.err)
	}
	return strings.TrimSpace(got.out)
}

// watcher reads a process in the background, and lets the test wait for its output.
type watcher struct {
	j    *jar
	grew chan struct{}
	text chan string // holds the output so far
	done chan struct{}
	exit wire.Exit
	err  error
}

func (j *jar) watch(p *agent.Process) *watcher {
	w := &watcher{j: j, grew: make(chan struct{}, 1), text: make(chan string, 1), done: make(chan struct{})}
	w.text <- ""
	go func() {
		defer close(w.done)
		w.exit, w.err = p.Output(j.ctx, func(_ int64, _ wire.Stream, b []byte) error {
			w.text <- <-w.text + string(b)
			select {
			case w.grew <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	j.Cleanup(func() {
		p.Close()
		<-w.done
	})
	return w
}

func (w *watcher) seen() string {
	s := <-w.text
	w.text <- s
	return s
}

// await waits until the output contains s.
func (w *watcher) await(s string) {
	w.j.Helper()
	for !strings.Contains(w.seen(), s) {
		select {
		case <-w.grew:
		case <-w.done:
			if !strings.Contains(w.seen(), s) {
				w.j.Fatalf("ended (%+v, %v) without %q; printed %.300q", w.exit, w.err, s, w.seen())
			}
		}
	}
}

// end waits for the outcome.
func (w *watcher) end() wire.Exit {
	w.j.Helper()
	<-w.done
	if w.err != nil {
		w.j.Fatalf("%v; printed %.300q", w.err, w.seen())
	}
	return w.exit
}

// until calls ask repeatedly, with pauses: the processes that it waits for need the processor.
func (j *jar) until(what string, ask func() bool) {
	j.Helper()
	for ; !ask(); time.Sleep(2 * time.Millisecond) {
		if j.ctx.Err() != nil {
			j.Fatalf("never: %s", what)
		}
	}
}

func (j *jar) file(path string) wire.FileRequest {
	return wire.FileRequest{Path: path, UID: j.o.UID, GID: j.o.GID}
}

func (j *jar) write(path, content string) {
	j.Helper()
	if _, err := j.agent.WriteFile(j.ctx, j.file(path), strings.NewReader(content)); err != nil {
		j.Fatal(err)
	}
}

func (j *jar) read(path string) string {
	j.Helper()
	r, _, err := j.agent.ReadFile(j.ctx, j.file(path))
	if err != nil {
		j.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		j.Fatal(err)
	}
	return string(b)
}

func (j *jar) exists(path string) bool {
	j.Helper()
	_, err := j.agent.Stat(j.ctx, j.file(path))
	if err != nil && codeOf(err) != wire.CodeNotFound {
		j.Fatal(err)
	}
	return err == nil
}

// codeOf returns the agent's code for err; "" if err is not an answer of the agent.
func codeOf(err error) wire.Code {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// refused checks that err is an answer of the agent, with one of the codes.
func (j *jar) refused(what string, err error, codes ...wire.Code) {
	j.Helper()
	for _, c := range codes {
		if codeOf(err) == c {
			return
		}
	}
	j.Errorf("%s: %v (code %q), want code %v", what, err, codeOf(err), codes)
}
