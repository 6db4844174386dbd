//go:build linux

package service_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// looping is a script that prints up, and then nothing until it is stopped.
const looping = "echo up; while [ ! -e stop ]; do sleep 0.01; done"

// A session ends after its lifetime, whether or not it is used, and its runs end with it.
func TestSessionLifetime(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock, o.SessionTTL = clock, time.Hour })
	s := b.open(func(r *belljar.SessionRequest) { r.LifetimeSec = 2 * 3600 })
	idle := b.open(func(r *belljar.SessionRequest) { r.LifetimeSec, r.TTLSec = 60, 3600 })
	if want := clock.Now().Add(time.Minute); !idle.ExpiresAt.Equal(want) {
		t.Errorf("expires at %v, want %v", idle.ExpiresAt, want)
	}
	run := b.start(in(s, looping))
	b.waitFor(run.ID, "up")
	clock.pass(2*time.Hour - time.Second)
	b.state(idle.ID, belljar.SessionExpired)
	if got := b.state(s.ID, belljar.SessionActive); !got.ExpiresAt.Equal(clock.Now().Add(time.Second)) {
		t.Errorf("expires at %v", got.ExpiresAt)
	}
	clock.pass(time.Second)
	if got := b.state(s.ID, belljar.SessionExpired); !strings.Contains(got.Message, "lifetime of 2h") {
		t.Errorf("%q", got.Message)
	}
	r := b.follow(run.ID)
	if r.Phase != belljar.PhaseKilled || r.ReasonCode != belljar.ReasonSessionExpired || !strings.Contains(r.Message, "lifetime") {
		t.Errorf("%s, %s, %q", r.Phase, r.ReasonCode, r.Message)
	}
	b.gone(s.ID)
}

// The idle timeout continues during a run without output. Output, input and requests restart it.
func TestSessionIdle(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock = clock })
	s := b.open(func(r *belljar.SessionRequest) { r.IdleTimeoutSec = 600 })
	run := b.start(in(s, "echo up; for i in 1 2 3; do while [ ! -e $i ]; do sleep 0.01; done; echo $i; done; sleep 1000"))
	b.waitFor(run.ID, "up")
	for _, step := range []string{"1", "2", "3"} { // an upload, and a printed line
		clock.pass(9 * time.Minute)
		if _, err := b.mine().Upload(b.context(), s.ID, files(map[string]string{step: ""})); err != nil {
			t.Fatal(err)
		}
		b.waitFor(run.ID, step)
	}
	// Reading its state does not count as a use.
	clock.pass(9 * time.Minute)
	got := b.state(s.ID, belljar.SessionActive)
	if want := clock.Now().Add(time.Minute); !got.ExpiresAt.Equal(want) || !got.LastActivityAt.Equal(clock.Now().Add(-9*time.Minute)) {
		t.Errorf("expires at %v, want %v; last activity %v", got.ExpiresAt, want, got.LastActivityAt)
	}
	clock.pass(time.Minute)
	if got := b.state(s.ID, belljar.SessionExpired); !strings.HasPrefix(got.Message, "idle: ") {
		t.Errorf("%q", got.Message)
	}
	if r := b.follow(run.ID); r.ReasonCode != belljar.ReasonSessionExpired || !strings.Contains(r.Message, "idle") {
		t.Errorf("%s, %q", r.ReasonCode, r.Message)
	}
	b.gone(s.ID)
}

// Output alone does not count as a use: it resets the idle timeout, but does not extend the lifetime.
func TestOutputIsASignOfLife(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock = clock })
	s := b.open(func(r *belljar.SessionRequest) { r.IdleTimeoutSec = 60 })
	run := b.start(in(s, `while [ ! -e stop ]; do echo line; sleep 0.01; done`))
	b.waitFor(run.ID, "line")
	for range 10 {
		clock.pass(59 * time.Second)
		b.stirred(s.ID, clock.Now())
	}
	if got := b.state(s.ID, belljar.SessionActive); got.State != belljar.SessionActive {
		t.Errorf("%+v", got)
	}
	if err := b.Cancel(b.context(), run.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID)
}

// A run over its log's cap keeps its session from the idle timeout, since its output no longer arrives: also after a restart.
func TestCutOutputIsASignOfLife(t *testing.T) {
	clock := newHourglass()
	w := newWorld(t, func(o *service.Options) { o.Clock, o.Limits.LogBytes = clock, 100 })
	p := w.boot()
	s := p.open(func(r *belljar.SessionRequest) { r.IdleTimeoutSec = 60 })
	run := p.start(in(s, `seq 100; while [ ! -e stop ]; do echo line; sleep 0.01; done`))
	for f, err := range p.Frames(p.context(), run.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == belljar.FrameTruncated {
			break
		}
	}
	idle := func() {
		t.Helper()
		for range 3 {
			clock.pass(61 * time.Second)
		}
		p.state(s.ID, belljar.SessionActive)
	}
	idle()
	p.kill()
	p = w.boot()
	idle()
	if err := p.Cancel(p.context(), run.ID); err != nil {
		t.Fatal(err)
	}
	p.follow(run.ID)
	p.service.WaitIdle()
	clock.pass(61 * time.Second)
	p.state(s.ID, belljar.SessionExpired)
}

// stirred waits until a session has had activity since a time.
func (b *bench) stirred(id string, at time.Time) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		got, err := b.mine().Get(b.context(), id)
		if err != nil || got.State.Ended() || time.Now().After(deadline) {
			b.t.Fatalf("%+v, %v", got, err)
		}
		if !got.LastActivityAt.Before(at) {
			return
		}
	}
}

// Input counts as a use.
func TestInputIsAUse(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock = clock })
	s := b.open(func(r *belljar.SessionRequest) { r.IdleTimeoutSec = 60 })
	req := in(s, "cat > /dev/null; echo done")
	req.Interactive, req.StdinIdleTimeoutSec = true, 600
	run := b.start(req)
	hold, err := b.Stdin(b.context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := hold.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		b.stirred(s.ID, clock.Now())
		clock.pass(59 * time.Second)
	}
	b.state(s.ID, belljar.SessionActive)
	if err := hold.End(); err != nil {
		t.Fatal(err)
	}
	if r := b.follow(run.ID); r.stdout != "done\n" {
		t.Errorf("%q, %s", r.stdout, r.Phase)
	}
}

// Uses do not set a new timer each.
func TestUsesWindNoClocks(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock = clock })
	s := b.open()
	b.run(in(s, "true"))
	clock.mu.Lock()
	before := clock.next
	clock.mu.Unlock()
	for range 10 {
		if _, err := b.mine().Upload(b.context(), s.ID, files(map[string]string{"x": ""})); err != nil {
			t.Fatal(err)
		}
	}
	clock.mu.Lock()
	defer clock.mu.Unlock()
	if clock.next != before {
		t.Errorf("%d clocks for 10 uses", clock.next-before)
	}
}

func TestMaxRuns(t *testing.T) {
	b := newBench(t)
	s := b.open(func(r *belljar.SessionRequest) { r.MaxRuns = 3 })
	req := in(s, "true")
	req.IdempotencyKey = "k"
	first := b.start(req)
	if again := b.start(req); again.ID != first.ID { // a replay does not count
		t.Errorf("%s, %s", first.ID, again.ID)
	}
	if _, err := b.Start(b.context(), in(s, "")); err != nil { // sh -c '' counts
		t.Error(err)
	}
	bad := in(s, "true")
	bad.Env = map[string]string{"=": ""}
	if _, err := b.Start(b.context(), bad); err == nil { // a refused run does not count
		t.Error("accepted")
	}
	b.run(in(s, "true"))
	_, err := b.Start(b.context(), in(s, "true"))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeQuotaExceeded || e.Details["quota"] != "max_runs" || e.Details["limit"] != 3 || e.Details["used"] != 3 {
		t.Errorf("%+v", err)
	}
	if got, err := b.mine().Get(b.context(), s.ID); err != nil || got.Runs != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Of concurrent runs, exactly the maximum number begins.
func TestMaxRunsAtOnce(t *testing.T) {
	b := newBench(t)
	s := b.open(func(r *belljar.SessionRequest) { r.MaxRuns = 5 })
	var wait sync.WaitGroup
	started := make(chan string, 20)
	for range 20 {
		wait.Go(func() {
			if run, err := b.Start(b.context(), in(s, "true")); err == nil {
				started <- run.ID
			} else if belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	close(started)
	n := 0
	for id := range started {
		b.follow(id).want(t, belljar.PhaseCompleted, 0, "")
		n++
	}
	if n != 5 {
		t.Errorf("%d runs", n)
	}
}

// A session has its own queue: its runs wait only for each other, and no other runs wait for them.
func TestSessionQueue(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Concurrency = 1 })
	narrow := b.open(func(r *belljar.SessionRequest) { r.MaxConcurrent = 2 })
	wide := b.open()
	outside := b.start(shell("echo up; sleep 1000"))
	b.waitFor(outside.ID, "up")
	var inside []belljar.Run
	for range 2 {
		inside = append(inside, b.start(in(narrow, looping)))
	}
	for _, r := range inside {
		b.waitFor(r.ID, "up")
	}
	third := b.start(in(narrow, "echo third"))
	if third.Phase != belljar.PhaseQueued {
		t.Errorf("the third of two at once is %s", third.Phase)
	}
	if waits := b.start(shell("true")); waits.Phase != belljar.PhaseQueued {
		t.Errorf("a second run on the node is %s", waits.Phase)
	} else if err := b.Cancel(b.context(), waits.ID); err != nil {
		t.Error(err)
	}
	b.run(in(wide, "true")).want(t, belljar.PhaseCompleted, 0, "")
	b.run(in(wide, "echo > go")).want(t, belljar.PhaseCompleted, 0, "")
	if _, err := b.mine().Upload(b.context(), narrow.ID, files(map[string]string{"stop": ""})); err != nil {
		t.Fatal(err)
	}
	if r := b.follow(third.ID); r.stdout != "third\n" {
		t.Errorf("%q, %s", r.stdout, r.Phase)
	}
	if err := b.Cancel(b.context(), outside.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(outside.ID)
}

// A user's own bound applies to all of their runs, in every queue.
func TestQuotaAcrossSessions(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Quota.ConcurrentRuns = 2 })
	ann := b.service.As(belljar.Caller{ID: "ann", Role: belljar.RoleUser})
	made := func() belljar.Session {
		s, err := ann.Sessions().Create(b.context(), spec())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	start := func(req belljar.RunRequest) belljar.Run {
		r, err := ann.Runs().Start(b.context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, second := made(), made()
	runs := []belljar.Run{start(in(first, looping)), start(shell("echo up; sleep 1000"))}
	third := start(in(second, "echo third"))
	if third.Phase != belljar.PhaseQueued {
		t.Errorf("the third is %s", third.Phase)
	}
	if r := b.run(in(b.open(), "echo other")); r.stdout != "other\n" { // of another user
		t.Errorf("%q", r.stdout)
	}
	if err := ann.Runs().Cancel(b.context(), runs[1].ID); err != nil {
		t.Fatal(err)
	}
	if r := b.follow(third.ID); r.stdout != "third\n" {
		t.Errorf("%q, %s", r.stdout, r.Phase)
	}
}

// Queued requests in many sessions have a bound in bytes: one for each user, and one for all. Short requests are always
// accepted, and ended ones no longer count.
func TestRequestsThatWaitAreBounded(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.UserRequests, o.AllRequests = 1<<20, 3<<19 })
	long := strings.Repeat("x", 400<<10)
	wait := func(s belljar.Session) belljar.RunRequest {
		r := in(s, "true")
		r.Stdin = long
		return r
	}
	var first belljar.Run
	for i := range 3 { // each in its own session, whose queue has room
		s := b.open(func(r *belljar.SessionRequest) { r.MaxConcurrent = 1 })
		b.start(in(s, "sleep 1000"))
		if i < 2 {
			first = b.start(wait(s))
			continue
		}
		_, err := b.Start(b.context(), wait(s))
		var refused *belljar.Error
		if !errors.As(err, &refused) || refused.Code != belljar.CodeRateLimited || refused.Details["retry_after_sec"] == nil {
			t.Fatalf("the third: %v", err)
		}
		b.start(in(s, "true")) // a short request
		if got, err := b.mine().Get(b.context(), s.ID); err != nil || got.Runs != 2 {
			t.Errorf("%+v, %v", got, err) // refused requests do not count
		}
		if err := b.Cancel(b.context(), first.ID); err != nil {
			t.Fatal(err)
		}
		b.follow(first.ID)
		b.start(wait(s))
	}
	bob := b.as("bob")
	for i := range 2 {
		r := command("sleep", "1000")
		for n := range 500 { // with nothing in them
			r.Files = append(r.Files, belljar.InlineFile{Path: fmt.Sprint(n, strings.Repeat("/"+long[:200], 4))})
		}
		run, err := bob.Start(b.context(), r)
		switch {
		case i == 0 && err != nil, i == 1 && belljar.CodeOf(err) != belljar.CodeRateLimited:
			t.Errorf("bob's %d: %v", i, err)
		case err == nil:
			defer bob.Cancel(b.context(), run.ID)
		}
	}
}

// A full queue of one session refuses runs of only that session.
func TestSessionQueueIsFull(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.QueueLength = 1 })
	s := b.open(func(r *belljar.SessionRequest) { r.MaxConcurrent, r.MaxRuns = 1, 3 })
	b.start(in(s, "sleep 1000"))
	b.start(in(s, "true"))
	for range 5 {
		if _, err := b.Start(b.context(), in(s, "true")); belljar.CodeOf(err) != belljar.CodeRateLimited {
			t.Errorf("%v", err)
		}
	}
	if got, err := b.mine().Get(b.context(), s.ID); err != nil || got.Runs != 2 { // refused runs do not count
		t.Errorf("%+v, %v", got, err)
	}
	b.run(in(b.open(), "true")).want(t, belljar.PhaseCompleted, 0, "")
}
