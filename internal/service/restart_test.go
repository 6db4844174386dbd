//go:build linux

package service_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// The record of a run that has left the queue lags for a while. The run must not execute twice.
func TestRecoverRunsNothingTwice(t *testing.T) {
	var o service.Options
	b := newBench(t, parts(&o))
	req := shell("echo twice")
	for name, frames := range map[string][]belljar.Frame{
		"starting": phases(belljar.PhaseQueued, belljar.PhaseStarting),
		"running":  phases(belljar.PhaseQueued, belljar.PhaseStarting, belljar.PhaseRunning),
		"building": append(phases(belljar.PhaseQueued, belljar.PhaseStarting),
			belljar.Frame{Type: belljar.FrameStderr, Step: belljar.StepBuild, Output: []byte("warning")}),
		"silent": append(append(phases(belljar.PhaseQueued), belljar.Frame{Type: belljar.FrameHeartbeat, Time: time.Unix(1, 0)}),
			phases(belljar.PhaseStarting)...),
	} {
		t.Run(name, func(t *testing.T) {
			row := leftRow(belljar.PhaseQueued, &req.RunSpec)
			leave(t, o, row, frames)
			b.recover()
			for f, err := range b.Frames(b.context(), row.ID, 1) {
				if err != nil || f.Type == belljar.FrameStdout {
					t.Fatalf("%+v, %v", f, err)
				}
			}
			run, err := b.Get(t.Context(), row.ID)
			if err != nil || run.Phase != belljar.PhaseFailed || run.ReasonCode != belljar.ReasonNodeLost {
				t.Errorf("%+v, %v", run, err)
			}
		})
	}
	// The run was cancelled, and the process died before that was recorded.
	over := leftRow(belljar.PhaseQueued, &req.RunSpec)
	leave(t, o, over, append(phases(belljar.PhaseQueued), belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventEnd,
		Data: map[string]any{"phase": "killed", "exit_code": nil, "reason_code": "canceled_by_user"}}))
	waits := leftRow(belljar.PhaseQueued, &req.RunSpec)
	leave(t, o, waits, append(phases(belljar.PhaseQueued), belljar.Frame{Type: belljar.FrameHeartbeat, Time: time.Unix(1, 0)}))
	b.recover()
	if r := b.follow(waits.ID); r.stdout != "twice\n" {
		t.Errorf("one that still waited printed %q", r.stdout)
	}
	if run, err := b.Get(t.Context(), over.ID); err != nil || run.Phase != belljar.PhaseKilled || run.LastSeq != 2 {
		t.Errorf("one that was cancelled: %+v, %v", run, err)
	}
}

// torn is a logbook in which one log cannot be opened.
type torn struct {
	logbook.Book
	id string
}

var errTorn = errors.New("torn")

func (b *torn) Open(id string) (logbook.Log, error) {
	if id == b.id {
		return nil, errTorn
	}
	return b.Book.Open(id)
}

// A run with an unusable log does not prevent the server from starting.
func TestRecoverPastATornLog(t *testing.T) {
	var o service.Options
	var book *torn
	b := newBench(t, func(o *service.Options) { book = &torn{Book: o.Logs}; o.Logs = book }, parts(&o))
	req := shell("echo well")
	bad, good, running := leftRow(belljar.PhaseQueued, &req.RunSpec), leftRow(belljar.PhaseQueued, &req.RunSpec), leftRow(belljar.PhaseRunning, nil)
	book.id = bad.ID
	for _, row := range []store.Run{bad, good, running} {
		leave(t, o, row, phases(belljar.PhaseQueued))
	}
	b.recover()
	if r := b.follow(good.ID); r.stdout != "well\n" {
		t.Errorf("printed %q", r.stdout)
	}
	for _, row := range []store.Run{bad, running} {
		run, err := b.Get(t.Context(), row.ID)
		if err != nil || run.Phase != belljar.PhaseFailed || run.ReasonCode != belljar.ReasonNodeLost {
			t.Errorf("%+v, %v", run, err)
		}
	}
	if run, _ := b.Get(t.Context(), bad.ID); len(run.Warnings) != 1 || run.LastSeq == 0 {
		t.Errorf("the run without a log: %+v", run)
	}
}

// After the response to a cancellation, the run does not begin in a later process either.
func TestCancelInTheQueueIsOnRecord(t *testing.T) {
	kept := &records{}
	b := newBench(t, one, recorded(kept))
	first, _ := b.busy()
	waits := b.start(shell("echo never"))
	if err := b.Cancel(b.context(), waits.ID); err != nil {
		t.Fatal(err)
	}
	row, err := kept.Runs().Get(t.Context(), waits.ID)
	if err != nil || row.Phase != belljar.PhaseKilled || row.ReasonCode != belljar.ReasonCanceledByUser {
		t.Errorf("on record as %s, %s, %v", row.Phase, row.ReasonCode, err)
	}
	if err := b.Cancel(b.context(), first.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(first.ID)
}

// A draining server makes no sessions, while running runs end.
func TestDrainMakesNoSessions(t *testing.T) {
	b := newBench(t, one)
	first, _ := b.busy()
	ctx, hurry := context.WithCancel(t.Context())
	drained := make(chan error, 1)
	go func() { drained <- b.service.Drain(ctx) }()
	refused := func(err error) bool { return belljar.CodeOf(err) == belljar.CodeRuntimeUnavailable }
	for { // until draining has begun
		_, err := b.Start(b.context(), shell("true"))
		if refused(err) {
			break
		}
		if err != nil && belljar.CodeOf(err) != belljar.CodeRateLimited {
			t.Fatal(err)
		}
	}
	for soon := b.context(); ; { // slightly later
		s, err := b.mine().Create(soon, spec())
		if refused(err) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := b.mine().Delete(b.context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	if run, err := b.Get(t.Context(), first.ID); err != nil || run.Phase.Terminal() {
		t.Errorf("the run under way: %+v, %v", run, err)
	}
	hurry()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// stuck is a runtime whose sandboxes cannot be removed.
type stuck struct {
	runtime.Runtime
	asked chan string
	free  chan struct{}
}

func (r *stuck) Remove(_ context.Context, id string) error {
	r.asked <- id
	<-r.free
	return nil
}

// A sandbox that cannot be removed does not prevent the server from starting.
func TestRecoverPastAStuckSandbox(t *testing.T) {
	clock := newHourglass()
	rt := &stuck{asked: make(chan string, 2), free: make(chan struct{})}
	var o service.Options
	b := newBench(t, func(o *service.Options) { o.Clock = clock }, over(func(r runtime.Runtime) runtime.Runtime {
		rt.Runtime = r
		return rt
	}), parts(&o))
	defer close(rt.free)
	rows := []store.Run{leftRow(belljar.PhaseRunning, nil), leftRow(belljar.PhaseStarting, nil)}
	for _, row := range rows {
		leave(t, o, row, phases(belljar.PhaseStarting))
	}
	recovered := make(chan error, 1)
	go func() { recovered <- b.service.Recover(b.context()) }()
	for range rows {
		<-rt.asked
		clock.pass(time.Minute)
	}
	if err := <-recovered; err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if run, err := b.Get(t.Context(), row.ID); err != nil || run.ReasonCode != belljar.ReasonNodeLost {
			t.Errorf("%+v, %v", run, err)
		}
	}
}

// waits is a context that reports when an operation waits for it.
type waits struct {
	context.Context
	begun func()
}

func (w waits) Done() <-chan struct{} {
	w.begun()
	return w.Context.Done()
}

// A draining server does not wait for a run that cannot be recorded.
func TestDrainPastARunThatDoesNotStart(t *testing.T) {
	inserting, fail := make(chan struct{}), make(chan struct{})
	b := newBench(t, recorded(&records{insert: func() error {
		close(inserting)
		<-fail
		return errors.New("no")
	}}))
	started := make(chan error, 1)
	go func() {
		_, err := b.Start(b.context(), shell("true"))
		started <- err
	}()
	<-inserting
	ctx := b.context()
	if err := b.service.Drain(waits{ctx, sync.OnceFunc(func() { close(fail) })}); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	if err := <-started; err == nil {
		t.Error("the run was accepted")
	}
}
