//go:build linux

package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/admission"
)

// one configures a service that executes one run at a time.
func one(o *service.Options) { o.Concurrency = 1 }

// busy starts a run that ends when the test calls end, and returns when its command runs.
func (b *bench) busy() (run belljar.Run, end func()) {
	b.t.Helper()
	run = b.start(shell("echo begun; exec sleep 1000"))
	b.waitFor(run.ID, "begun")
	return run, func() {
		b.t.Helper()
		if err := b.Cancel(b.context(), run.ID); err != nil {
			b.t.Error(err)
		}
	}
}

// events returns the events of a run's log, as "event phase".
func (r result) events() string {
	var list []string
	for _, f := range r.frames {
		if f.Type == belljar.FrameEvent {
			phase, _ := f.Data["phase"].(string)
			list = append(list, strings.TrimSpace(f.Event+" "+phase))
		}
	}
	return strings.Join(list, ", ")
}

func TestQueued(t *testing.T) {
	var events diary
	b := newBench(t, one, func(o *service.Options) { o.Events = &events })
	first, end := b.busy()
	second := b.start(shell("echo two"))
	if second.Phase != belljar.PhaseQueued || second.EstimatedStartTime == nil || !second.EstimatedStartTime.After(second.CreatedAt) {
		t.Errorf("accepted as %+v", second)
	}
	if now, err := b.Get(t.Context(), second.ID); err != nil || now.Phase != belljar.PhaseQueued || now.EstimatedStartTime == nil {
		t.Errorf("while it waits: %+v, %v", now, err)
	}
	end()
	b.follow(first.ID)
	r := b.follow(second.ID)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if want := "phase queued, phase starting, phase running, start, end completed"; r.events() != want || r.EstimatedStartTime != nil {
		t.Errorf("events %s, estimate %v", r.events(), r.EstimatedStartTime)
	}
	for name, want := range map[string]int{event.RunCreated: 2, event.RunQueued: 1, event.RunStarting: 2, event.RunRunning: 2, event.RunKilled: 1, event.RunCompleted: 1} {
		if got := events.named(name); len(got) != want || got[0].Run == nil || got[0].Caller.ID != "local" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if waited := events.named(event.RunStarting)[1]; waited.Run.ID != second.ID || waited.Took <= 0 {
		t.Errorf("wait in the queue: %+v", waited)
	}
}

// A run that waits for memory is queued, not refused, and the wait counts.
func TestQueuedForMemory(t *testing.T) {
	var events diary
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) {
		o.Clock, o.Events, o.MemoryAdmission = clock, &events, admission.AdmitCaps
		o.Limits.MemoryMB, o.Limits.WorkspaceMB, o.Limits.TmpMB = 100, 50, 50
		o.NodeMemory = 400 << 20 // for one sandbox
	})
	b.recover()
	_, end := b.busy()
	second := b.start(shell("true"))
	if second.Phase != belljar.PhaseQueued || second.EstimatedStartTime == nil || !second.EstimatedStartTime.After(second.CreatedAt) {
		t.Errorf("accepted as %+v", second)
	}
	b.until(func() bool { return len(events.named(event.RunQueued)) > 0 })
	clock.pass(3 * time.Second)
	end()
	b.follow(second.ID).want(t, belljar.PhaseCompleted, 0, "")
	if n := len(events.named(event.QueueFull)); n != 0 {
		t.Errorf("%d runs were refused", n)
	}
	starts := events.named(event.RunStarting)
	if len(starts) != 2 || starts[0].Took != 0 || starts[1].Run.ID != second.ID || starts[1].Took != 3*time.Second {
		t.Errorf("%+v", starts)
	}
}

// The waits for a slot and for memory together last no longer than the queue's TTL, and a run in either survives the server.
func TestWaitsForMemoryLikeForASlot(t *testing.T) {
	var o service.Options
	var events diary
	clock := newHourglass()
	b := newBench(t, recorded(&records{}), func(o *service.Options) {
		o.Clock, o.Events, o.MemoryAdmission, o.Concurrency = clock, &events, admission.AdmitCaps, 2
		o.Limits.MemoryMB, o.Limits.WorkspaceMB, o.Limits.TmpMB = 100, 50, 50
		o.NodeMemory = 400 << 20 // for one sandbox
	}, parts(&o))
	b.recover()
	b.busy()
	second := b.start(shell("true")) // has a slot
	third := b.start(shell("true"))  // has none
	b.until(func() bool { return len(events.named(event.RunQueued)) == 2 })
	clock.pass(60 * time.Second)
	if err := b.Cancel(t.Context(), second.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(second.ID).want(t, belljar.PhaseKilled, -1, belljar.ReasonCanceledByUser)
	fourth := b.start(shell("echo later"))
	b.until(func() bool { return len(events.named(event.RunQueued)) == 3 })
	clock.pass(61 * time.Second)
	b.follow(third.ID).want(t, belljar.PhaseFailed, -1, belljar.ReasonQueueTTLExpired)

	if err := b.service.Close(); err != nil {
		t.Fatal(err)
	}
	b.Runs = recovered(t, o).As(service.Local()).Runs()
	r := b.follow(fourth.ID)
	if r.want(t, belljar.PhaseCompleted, 0, ""); r.stdout != "later\n" || !strings.HasPrefix(r.events(), "phase queued, phase starting, phase running") {
		t.Errorf("%s, printed %q", r.events(), r.stdout)
	}
}

func TestQueueFull(t *testing.T) {
	var events diary
	b := newBench(t, one, func(o *service.Options) { o.QueueLength, o.Events = 2, &events })
	_, end := b.busy()
	waiting := []belljar.Run{b.start(shell("true")), b.start(shell("true"))}
	_, err := b.Start(t.Context(), keyed("k", "true"))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeRateLimited {
		t.Fatalf("%v", err)
	}
	if after, ok := e.Details["retry_after_sec"].(int); !ok || after < 1 || after > 120 {
		t.Errorf("details %v", e.Details)
	}
	if len(events.named(event.QueueFull)) != 1 {
		t.Error("no waiter was woken")
	}
	end()
	for _, run := range waiting {
		b.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	}
	b.run(keyed("k", "true")).want(t, belljar.PhaseCompleted, 0, "")
}

func TestQueueTTL(t *testing.T) {
	clock := newHourglass()
	var events diary
	b := newBench(t, one, func(o *service.Options) { o.Clock, o.Events = clock, &events })
	_, end := b.busy()
	waits := b.start(shell("true"))
	clock.pass(121 * time.Second)
	r := b.follow(waits.ID)
	r.want(t, belljar.PhaseFailed, -1, belljar.ReasonQueueTTLExpired)
	if want := "phase queued, end failed"; r.events() != want || r.StartedAt != nil {
		t.Errorf("events %s, started at %v", r.events(), r.StartedAt)
	}
	if got := events.named(event.QueueTTLExpired); len(got) != 1 {
		t.Errorf("events: %+v", got)
	}
	end()
}

func TestCancelQueued(t *testing.T) {
	b := newBench(t, one)
	_, end := b.busy()
	waits := b.start(shell("true"))
	if err := b.Cancel(t.Context(), waits.ID); err != nil {
		t.Fatal(err)
	}
	r := b.follow(waits.ID)
	r.want(t, belljar.PhaseKilled, -1, belljar.ReasonCanceledByUser)
	if r.Message != "canceled_by_user" {
		t.Errorf("message %q", r.Message)
	}
	end()
}

// Waiting in the queue does not count towards the startup timeout.
func TestStartupTimeoutBeginsWithTheTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, one)
	first := b.start(shell(fmt.Sprintf("echo begun; exec sleep %d.2", late)))
	b.waitFor(first.ID, "begun")
	req := shell("true")
	req.StartupTimeoutSec = late
	b.run(req).want(t, belljar.PhaseCompleted, 0, "")
}

// Only a user at their bound waits.
func TestConcurrentRunsOfAUser(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Quota.ConcurrentRuns = 1 })
	_, end := b.busy()
	waits := b.start(shell("true"))
	if waits.Phase != belljar.PhaseQueued {
		t.Errorf("second of one user: %s", waits.Phase)
	}
	run, err := b.as("other").Start(t.Context(), shell("true"))
	if err != nil || run.Phase != belljar.PhaseStarting {
		t.Errorf("of another: %s, %v", run.Phase, err)
	}
	b.follow(run.ID)
	if err := b.service.As(service.Local()).Admin().SetQuota(t.Context(), "local", &belljar.Quota{}); err != nil {
		t.Fatal(err)
	}
	b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
	b.follow(waits.ID).want(t, belljar.PhaseCompleted, 0, "")
	end()
}

// A slot is free only when its run has been cleaned up, even if the response is sent earlier.
func TestSlotIsHeldUntilTheSandboxIsGone(t *testing.T) {
	g := &lingering{gone: make(chan struct{})}
	b := newBench(t, one, over(func(rt runtime.Runtime) runtime.Runtime { g.Runtime = rt; return g }))
	first := b.run(shell("true")) // after the response, its sandbox still exists
	first.want(t, belljar.PhaseCompleted, 0, "")
	second := b.start(shell("true"))
	if second.Phase != belljar.PhaseQueued {
		t.Errorf("second is %s while the first one's sandbox is there", second.Phase)
	}
	close(g.gone)
	b.follow(second.ID).want(t, belljar.PhaseCompleted, 0, "")
}

// If the next run could be refused because of a run's sandbox, the response follows the removal of that.
func TestResponseFreesTheSlot(t *testing.T) {
	for name, change := range map[string]func(*service.Options){
		"no queue": func(o *service.Options) { o.QueueLength = -1 },
		"caps":     func(o *service.Options) { o.MemoryAdmission = admission.AdmitCaps },
	} {
		rt := &mourner{}
		b := newBench(t, one, change, over(func(inner runtime.Runtime) runtime.Runtime { rt.Runtime = inner; return rt }))
		rt.destroyed = func(id string) {
			if run, err := b.Get(context.Background(), id); err != nil || run.Phase.Terminal() {
				t.Errorf("%s: its sandbox goes after its end: %s, %v", name, run.Phase, err)
			}
		}
		for range 3 {
			b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
		}
	}
}

// mourner is a runtime that calls a function before it destroys a sandbox.
type mourner struct {
	runtime.Runtime
	destroyed func(id string)
}

func (m *mourner) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := m.Runtime.Create(ctx, spec)
	return &mourned{box, m}, err
}

type mourned struct {
	runtime.Sandbox
	by *mourner
}

func (m *mourned) Destroy(ctx context.Context) error {
	m.by.destroyed(m.ID())
	return m.Sandbox.Destroy(ctx)
}

// lingering is a runtime whose sandboxes are not removed until gone is closed.
type lingering struct {
	runtime.Runtime
	gone chan struct{}
}

func (l *lingering) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := l.Runtime.Create(ctx, spec)
	return &lingers{box, l.gone}, err
}

type lingers struct {
	runtime.Sandbox
	gone chan struct{}
}

func (l *lingers) Destroy(ctx context.Context) error {
	<-l.gone
	return l.Sandbox.Destroy(ctx)
}
