//go:build linux

package service_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// slowRuntime makes a sandbox after a signal, or fails.
type slowRuntime struct {
	runtime.Runtime
	mu      sync.Mutex
	made    int
	fail    error
	asked   chan struct{} // receives a value before a sandbox is made, unless nil
	proceed chan struct{}
}

func (r *slowRuntime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	r.mu.Lock()
	r.made++
	fail, asked := r.fail, r.asked
	r.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	if asked != nil {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		select {
		case <-r.proceed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return r.Runtime.Create(ctx, spec)
}

func (r *slowRuntime) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// Concurrent calls resume a session once. It stays hibernated if resuming fails, or if no call waits any longer.
func TestWake(t *testing.T) {
	t.Parallel()
	rt, clock := &slowRuntime{proceed: make(chan struct{}, 1)}, newHourglass()
	b := newBench(t, func(o *service.Options) {
		rt.Runtime = o.Runtimes[0]
		o.Runtimes = []runtime.Runtime{rt}
		o.Clock, o.SessionTTL = clock, time.Hour
	})
	x := b.open()
	b.in(x.ID, "echo text >file")
	files := b.service.As(service.Local()).Files()
	read := func(ctx context.Context) error {
		_, err := files.Stat(ctx, x.ID, "file")
		return err
	}
	b.sleeping(x.ID)
	rt.set(func() { rt.made, rt.asked = 0, make(chan struct{}) })
	clock.pass(59 * time.Minute)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := read(b.context()); err != nil {
				t.Error(err)
			}
		})
	}
	<-rt.asked
	clock.pass(2 * time.Minute) // a waiting call uses it
	rt.proceed <- struct{}{}
	all.Wait()
	if rt.made != 1 {
		t.Errorf("made %d sandboxes", rt.made)
	}

	// If first one of two calls is cancelled, and then the other, nothing is made, and the next call resumes it.
	b.sleeping(x.ID)
	ctx, cancel := context.WithCancel(b.context())
	gone := make(chan error, 2)
	go func() { gone <- read(ctx) }()
	<-rt.asked
	other, cancelOther := context.WithCancel(b.context())
	run := b.start(in(x, "cat file"))
	go func() { gone <- read(other) }()
	cancel()
	<-gone
	if err := b.Cancel(b.context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if r := b.follow(run.ID); r.Phase != belljar.PhaseKilled {
		t.Errorf("%s", r.Phase)
	}
	cancelOther()
	if err := <-gone; err == nil {
		t.Error("a call that gave up has an answer")
	}
	rt.set(func() { rt.asked = nil })
	if err := read(b.context()); err != nil {
		t.Error(err)
	}
	b.state(x.ID, belljar.SessionActive)

	b.sleeping(x.ID)
	rt.set(func() { rt.fail = &runtime.StepError{Step: "mount", Err: errors.New("no room"), Hint: "make room"} })
	var e *belljar.Error
	if err := read(b.context()); !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["state"] != "hibernated" || e.Details["step"] != "mount" || !strings.Contains(e.Message, "stays hibernated") {
		t.Errorf("%v", err)
	}
	if r := b.run(in(x, "cat file")); r.Phase != belljar.PhaseFailed || !strings.Contains(r.Message, "stays hibernated") {
		t.Errorf("%s: %s", r.Phase, r.Message)
	}
	b.state(x.ID, belljar.SessionHibernated)
	rt.set(func() { rt.fail, rt.asked = nil, make(chan struct{}) })

	// The session is deleted while it resumes.
	go func() { gone <- read(b.context()) }()
	<-rt.asked
	if err := b.mine().Delete(b.context(), x.ID); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, "a use of a session that was deleted", <-gone, belljar.CodeConflict)
	b.state(x.ID, belljar.SessionClosed)
	b.until(func() bool { return b.kept() == 0 })
}

// A session that is being resumed is in use: it does not expire, however long that takes.
func TestWakeOutlastsTTL(t *testing.T) {
	t.Parallel()
	rt, clock := &slowRuntime{proceed: make(chan struct{}, 1)}, newHourglass()
	b := newBench(t, func(o *service.Options) {
		rt.Runtime = o.Runtimes[0]
		o.Runtimes = []runtime.Runtime{rt}
		o.Clock, o.SessionTTL = clock, time.Minute
	})
	x := b.open()
	b.in(x.ID, "echo text >file")
	b.sleeping(x.ID)
	rt.set(func() { rt.asked = make(chan struct{}) })
	read := make(chan error, 1)
	go func() {
		_, err := b.service.As(service.Local()).Files().Stat(b.context(), x.ID, "file")
		read <- err
	}()
	<-rt.asked
	clock.pass(time.Minute)
	clock.pass(time.Minute)
	rt.proceed <- struct{}{}
	if err := <-read; err != nil {
		t.Error(err)
	}
	b.state(x.ID, belljar.SessionActive)
}

// A process that dies between any two writes of a hibernation or a resume leaves a session with all of its files, and nothing else.
func TestHibernateSurvivesDeath(t *testing.T) {
	for _, way := range []string{"hibernate", "wake", "delete", "live hibernate", "live wake", "live delete"} {
		way, live := strings.CutPrefix(way, "live ")
		for step := 0; ; step++ {
			w := newWorld(t)
			if live {
				w = newWorld(t, saves(t.TempDir()))
			}
			p := w.boot()
			x := p.open(func(r *belljar.SessionRequest) { r.Scope = belljar.Scope{Namespace: "workflow", ID: "1", Key: "a"} })
			p.in(x.ID, "echo text >file")
			p.run(shellIn(x.ID, "variable=kept"))
			p.service.WaitIdle()
			if way != "hibernate" {
				p.sleeping(x.ID)
			}
			p.death.after(step)
			var err error
			switch way {
			case "hibernate":
				_, err = p.hibernate(x.ID, false)
			case "wake":
				_, err = p.service.As(service.Local()).Files().Stat(p.context(), x.ID, "file")
			case "delete":
				err = p.mine().Delete(p.context(), x.ID)
			}
			survived := p.death.alive(func() error { return nil }) == nil
			p.kill()
			next := w.boot()
			state, failed := next.mine().Get(next.context(), x.ID)
			if failed != nil {
				t.Fatal(failed)
			}
			if way == "delete" && state.State.Ended() {
				_, err = next.snapshots().Get(next.context(), x.ID)
				refusedAs(t, "the snapshot of a session that ended", err, belljar.CodeNotFound)
			} else if state.State.Ended() && way != "delete" {
				t.Errorf("%s, step %d: %s, %s", way, step, state.State, state.Message)
			} else if !state.State.Ended() {
				r := next.run(shellIn(x.ID, "cat file; echo $variable"))
				wantText(t, r.stdout, "text\nkept\n")
				now, err := next.mine().Get(next.context(), x.ID)
				if err != nil || now.Hibernated != nil && now.Hibernated.Live != live {
					t.Errorf("%s, step %d: %+v, %v", way, step, now.Hibernated, err)
				}
				next.end(x)
			}
			if err := next.service.Sweep(next.context()); err != nil {
				t.Fatal(err)
			}
			if n := w.blobs.count(); n != 0 {
				t.Errorf("%s, step %d: %d blobs are left", way, step, n)
			}
			if t.Failed() || survived {
				if survived && err != nil && way != "delete" {
					t.Errorf("%s: %v", way, err)
				}
				t.Logf("%s: %d steps, live: %v", way, step, live)
				break
			}
		}
	}
}
