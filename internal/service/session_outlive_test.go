//go:build linux

package service_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// ways runs a test for each way in which a process can end whose sessions continue.
func ways(t *testing.T, test func(t *testing.T, stop func(*process))) {
	t.Run("killed", func(t *testing.T) { test(t, (*process).kill) })
	t.Run("stopped", func(t *testing.T) {
		test(t, func(p *process) {
			if err := p.service.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// A scope resolves to the same session after a restart, with its files, its count of runs, and its terms.
func TestScopeOutlivesItsProcess(t *testing.T) {
	ways(t, func(t *testing.T, stop func(*process)) {
		clock := newHourglass()
		w := newWorld(t, func(o *service.Options) { o.Clock = clock })
		p := w.boot()
		s, _ := p.opened(scoped("workflow:1", func(r *belljar.SessionRequest) { r.MaxRuns, r.TTLSec, r.LifetimeSec = 3, 600, 3600 }))
		p.run(in(s, "echo kept > file")).want(t, belljar.PhaseCompleted, 0, "")
		p.run(in(s, "true")).want(t, belljar.PhaseCompleted, 0, "")
		isolated, _ := p.opened(scoped("workflow:1:isolated"))
		stop(p)

		next := w.boot()
		again, created := next.opened(scoped("workflow:1"))
		if created || again.ID != s.ID || again.ScopeKey != s.ScopeKey || again.Runs != 2 || !again.CreatedAt.Equal(s.CreatedAt) {
			t.Fatalf("%v, %+v", created, again)
		}
		if r := next.run(in(again, "cat file")); r.stdout != "kept\n" {
			t.Errorf("%q", r.stdout)
		}
		var e *belljar.Error
		if _, err := next.Start(next.context(), in(again, "true")); !errors.As(err, &e) || e.Details["quota"] != "max_runs" {
			t.Errorf("%v", err)
		}
		for range 6 { // its lifetime counts from when it was made
			clock.pass(599 * time.Second)
			next.opened(scoped("workflow:1"))
		}
		clock.pass(10 * time.Second)
		next.state(s.ID, belljar.SessionExpired)
		closed, err := next.mine().CloseAll(next.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:"})
		if err != nil {
			t.Error(err)
		}
		for _, id := range closed {
			if id != isolated.ID && id != s.ID {
				t.Errorf("closed %v", closed)
			}
		}
		next.gone("")
	})
}

// A retained session has no scope after a restart either, and ends at its time.
func TestRetainedOutlivesItsProcess(t *testing.T) {
	ways(t, func(t *testing.T, stop func(*process)) {
		clock := newHourglass()
		w := newWorld(t, func(o *service.Options) { o.Clock = clock })
		p := w.boot()
		s, _ := p.opened(scoped("workflow:1"))
		if _, err := p.mine().CloseAll(p.context(), belljar.CloseRequest{KeyPrefix: "workflow:", RetainSec: 300}); err != nil {
			t.Fatal(err)
		}
		until := clock.Now().Add(5 * time.Minute)
		stop(p)
		clock.pass(4 * time.Minute)

		next := w.boot()
		if got := next.state(s.ID, belljar.SessionActive); !got.ExpiresAt.Equal(until) || got.ScopeKey != "" {
			t.Errorf("%+v", got)
		}
		other, created := next.opened(scoped("workflow:1"))
		if !created || other.ID == s.ID {
			t.Errorf("%v, %+v", created, other)
		}
		clock.pass(time.Minute)
		next.state(s.ID, belljar.SessionExpired)
		next.end(other)
		next.gone("")
	})
}

// A session that was used shortly before the process died has not expired, although its record lags. A session that was idle for
// long has, and its scope is free.
func TestExpiryBehindARestart(t *testing.T) {
	clock := newHourglass()
	w := newWorld(t, func(o *service.Options) { o.Clock = clock })
	p := w.boot()
	used, _ := p.opened(scoped("agent:used", func(r *belljar.SessionRequest) { r.TTLSec = 600 }))
	unused, _ := p.opened(scoped("agent:unused", func(r *belljar.SessionRequest) { r.TTLSec = 300 }))
	clock.pass(59 * time.Second)
	p.opened(scoped("agent:used")) // too small a change for a write
	p.service.Reap(p.context())
	p.kill()
	clock.pass(599 * time.Second)

	next := w.boot()
	if again, created := next.opened(scoped("agent:used")); created || again.ID != used.ID {
		t.Errorf("%v, %+v", created, again)
	}
	if again, created := next.opened(scoped("agent:unused")); !created || again.ID == unused.ID {
		t.Errorf("%v, %+v", created, again)
	}
	next.state(unused.ID, belljar.SessionExpired)
	if _, err := next.mine().CloseAll(next.context(), belljar.CloseRequest{KeyPrefix: "agent:"}); err != nil {
		t.Error(err)
	}
	next.gone("")
}

// A sandbox keeps its class of isolation, even if its runtime now makes stronger ones.
func TestIsolationOutlivesItsProcess(t *testing.T) {
	isolating := func(by runtime.Isolation) func(*service.Options) {
		return func(o *service.Options) {
			o.Runtimes[0] = claiming{o.Runtimes[0], func(caps *runtime.Capabilities) { caps.Isolation = by }}
		}
	}
	w := newWorld(t)
	p := w.boot(isolating(runtime.IsolationNamespace))
	s := p.open()
	p.kill()
	p = w.boot(isolating(runtime.IsolationMicroVM))
	_, err := p.Start(p.context(), with(in(s, "true"), func(r *belljar.RunSpec) { r.Isolation = string(runtime.IsolationMicroVM) }))
	refusedAs(t, "a run that asks for more", err, belljar.CodeInvalidRequest)
	p.run(with(in(s, "true"), func(r *belljar.RunSpec) { r.Isolation = string(runtime.IsolationNamespace) })).want(t, belljar.PhaseCompleted, 0, "")
	p.end(s)
}

// A copy has the runtime of its session, even if the default has changed.
func TestCopyHasTheRuntimeOfItsSession(t *testing.T) {
	w := newWorld(t)
	p := w.boot(func(o *service.Options) {
		o.Runtimes = append([]runtime.Runtime{renamed{o.Runtimes[0], "second"}}, o.Runtimes...)
	})
	s := p.open()
	p.kill()
	p = w.boot(func(o *service.Options) { o.Runtimes = append(o.Runtimes, renamed{o.Runtimes[0], "second"}) })
	fork, err := p.snapshots().Fork(p.context(), s.ID, belljar.ForkSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fork.Sessions[0]; s.Runtime != "second" || got.Runtime != s.Runtime || got.RuntimeReason != "it is the session's" {
		t.Errorf("the copy of a session on %s is on %s, as %s", s.Runtime, got.Runtime, got.RuntimeReason)
	}
	p.end(s, fork.Sessions[0])
}

// A copy has the limits of its session, even if the defaults have changed. It has none above the present maximum.
func TestCopyHasTheLimitsOfItsSession(t *testing.T) {
	limit := func(files, most int) func(*service.Options) {
		return func(o *service.Options) {
			o.Limits.NoFile, o.Limits.TimeoutSec = files, float64(files)
			o.MaxLimits = belljar.MaxLimits()
			o.MaxLimits.NoFile = most
		}
	}
	w := newWorld(t)
	p := w.boot(limit(500, 500))
	s := p.open(func(r *belljar.SessionRequest) { r.Resources.LogBytes = 99 })
	p.kill()
	p = w.boot(limit(400, 500))
	fork, err := p.snapshots().Fork(p.context(), s.ID, belljar.ForkSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fork.Sessions[0]; got.Limits != s.Limits || got.Limits.LogBytes != 99 {
		t.Errorf("the copy has %+v, its session %+v", got.Limits, s.Limits)
	}
	if r := p.run(in(fork.Sessions[0], "ulimit -n")); r.stdout != "500\n" || r.ResourceUsage.Limits.TimeoutSec != 500 {
		t.Errorf("%q, %+v", r.stdout, r.ResourceUsage.Limits)
	}
	asked := p.open(func(r *belljar.SessionRequest) { r.Resources.NoFile = 500 })
	p.kill()
	p = w.boot(limit(300, 400))
	for _, x := range []belljar.Session{s, asked} {
		_, err = p.snapshots().Fork(p.context(), x.ID, belljar.ForkSpec{})
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodePolicyDenied || e.Details["field"] != nil || e.Details["maximum"] != 400.0 ||
			e.Message != "the session has resources.nofile 500, above this server's maximum of 400 now" {
			t.Errorf("a copy above the maximum: %+v", err)
		}
	}
	p.end(s, fork.Sessions[0], asked)
}

// slow is a store that runs due timers before it looks for unfinished runs.
type slow struct {
	store.Store
	clock *hourglass
}

func (s slow) Runs() store.Runs { return slowRuns{s.Store.Runs(), s.clock} }

type slowRuns struct {
	store.Runs
	clock *hourglass
}

func (r slowRuns) Unfinished(ctx context.Context) ([]store.Run, error) {
	r.clock.pass(0)
	return r.Runs.Unfinished(ctx)
}

// A run is a use of its session even if no process was running for longer than the session's TTL, and the run ended meanwhile.
func TestRunOutlivesTheTimeOfItsSession(t *testing.T) {
	for _, ends := range []bool{false, true} {
		clock := newHourglass()
		w := newWorld(t, func(o *service.Options) { o.Clock, o.Store = clock, slow{o.Store, clock} })
		p := w.boot()
		s := p.open(func(r *belljar.SessionRequest) { r.TTLSec = 60 })
		gate := filepath.Join(t.TempDir(), "gate")
		run := p.start(in(s, "echo up; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo over"))
		p.waitFor(run.ID, "up\n")
		p.kill()
		end := func() {
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if ends {
			end()
			box, err := w.runtime().Attach(t.Context(), s.ID)
			if err != nil {
				t.Fatal(err)
			}
			awaitExit(t, box, run.ID)
		}
		clock.pass(time.Hour)

		next := w.boot()
		end()
		r := next.follow(run.ID)
		r.want(t, belljar.PhaseCompleted, 0, "")
		wantText(t, r.stdout, "up\nover\n")
		next.service.WaitIdle()
		clock.pass(time.Minute)
		next.state(s.ID, belljar.SessionExpired)
		next.gone("")
	}
}
