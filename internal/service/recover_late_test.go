//go:build linux

package service_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// lateRuntime finds sandboxes again whose agents cannot be reached before answer is closed.
type lateRuntime struct {
	runtime.Runtime
	answer chan struct{}
}

func (r lateRuntime) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	box, err := r.Runtime.Attach(ctx, id)
	return &lateBox{Sandbox: box, answer: r.answer}, err
}

type lateBox struct {
	runtime.Sandbox
	answer chan struct{}
	asked  atomic.Bool
}

func (b *lateBox) Dial(ctx context.Context) (net.Conn, error) {
	if b.asked.CompareAndSwap(false, true) { // for its user, on this runtime
		return b.Sandbox.Dial(ctx)
	}
	select {
	case <-b.answer:
		return b.Sandbox.Dial(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// unanswered makes the next process find agents that do not answer before answer is closed.
func unanswered(answer chan struct{}) func(*service.Options) {
	return func(o *service.Options) {
		o.Patience = time.Millisecond
		o.Runtimes[0] = lateRuntime{o.Runtimes[0], answer}
	}
}

// A start does not wait for agents that do not answer. Sessions and runs are as they were until their agents answer, and then continue.
func TestRecoverPastLateAgents(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	gate := filepath.Join(t.TempDir(), "gate")
	script := "seq 1 5000; while [ ! -e " + gate + " ]; do sleep 0.01; done; seq 5001 9000"
	asks := in(s, "read line; echo $line")
	asks.Interactive = true
	asking, runs := p.start(asks), []belljar.Run{p.start(shell(script)), p.start(in(s, script))}
	for _, run := range runs {
		p.waitFor(run.ID, "\n4000\n")
	}
	p.stdin(asking.ID)
	term := p.terminal(s.ID, "sleep", "1000")
	p.kill()
	for range 2 { // the second process finds what the first one has left
		p = w.boot(unanswered(make(chan struct{})))
		for _, run := range append(runs, asking) {
			if got, err := p.Get(p.context(), run.ID); err != nil || got.Phase != belljar.PhaseRunning {
				t.Errorf("%+v, %v", got, err)
			}
		}
		p.state(s.ID, belljar.SessionActive)
		p.kill()
	}
	answer := make(chan struct{})
	p = w.boot(unanswered(answer))
	input := p.stdin(asking.ID)
	close(answer)
	p.say(input, "typed\n")
	if r := p.follow(asking.ID); r.stdout != "typed\n" || r.Phase != belljar.PhaseCompleted {
		t.Errorf("%q, %+v", r.stdout, r.Run)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		r := p.follow(run.ID)
		r.want(t, belljar.PhaseCompleted, 0, "")
		wantText(t, r.stdout, seq(9000))
	}
	p.until(func() bool {
		list, err := p.terminals("").List(p.context(), s.ID)
		return err == nil && len(list) == 1 && list[0].ID == term.ID
	})
	p.end(s)
	p.gone("")
}

// A session and a run whose agents have not answered yet end like others.
func TestEndOfLateAgents(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	runs := []belljar.Run{p.start(shell("echo up; sleep 1000")), p.start(in(s, "echo up; sleep 1000"))}
	for _, run := range runs {
		p.waitFor(run.ID, "up\n")
	}
	p.kill()
	p = w.boot(unanswered(make(chan struct{})), func(o *service.Options) { o.Slack = time.Millisecond })
	if err := p.Cancel(p.context(), runs[0].ID); err != nil {
		t.Fatal(err)
	}
	p.end(s)
	for _, run := range runs {
		if r := p.follow(run.ID); r.Phase != belljar.PhaseKilled || r.ReasonCode != belljar.ReasonCanceledByUser {
			t.Errorf("%+v", r.Run)
		}
	}
	p.gone("")
}

// A server that stops leaves sessions and runs to the next one also if their agents have not answered.
func TestCloseBeforeLateAgentsAnswer(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	gate := filepath.Join(t.TempDir(), "gate")
	run := p.start(in(s, "echo up; while [ ! -e "+gate+" ]; do sleep 0.01; done; exit 3"))
	p.waitFor(run.ID, "up\n")
	p.kill()
	p = w.boot(unanswered(make(chan struct{})))
	if err := p.service.Close(); err != nil {
		t.Fatal(err)
	}
	p = w.boot()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.follow(run.ID).want(t, belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit)
	p.end(s)
}
