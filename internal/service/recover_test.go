//go:build linux

package service_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// parts gives a test access to the parts of a service.
func parts(to *service.Options) func(*service.Options) {
	return func(o *service.Options) { *to = *o }
}

// leave creates a run as a dead process would have left it: its record, and frames in its log (nil for no log).
func leave(t *testing.T, o service.Options, row store.Run, frames []belljar.Frame) {
	t.Helper()
	if _, err := o.Store.Runs().Insert(t.Context(), row, nil); err != nil {
		t.Fatal(err)
	}
	if frames == nil {
		return
	}
	log, err := o.Logs.Create(row.ID)
	if err == nil {
		err = log.Append(frames...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func leftRow(phase belljar.Phase, spec *belljar.RunSpec) store.Run {
	return store.Run{
		Run: belljar.Run{
			ID: belljar.NewID(), UserID: "local", Phase: phase, Runtime: "fake", SpecVersion: "1.1", BaseImage: "host",
			CreatedAt: newHourglass().Now(),
		},
		Spec: spec,
	}
}

func phases(list ...belljar.Phase) (frames []belljar.Frame) {
	for _, p := range list {
		frames = append(frames, belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventPhase, Data: map[string]any{"phase": string(p)}})
	}
	return frames
}

func (b *bench) recover() {
	b.t.Helper()
	if err := b.service.Recover(b.context()); err != nil {
		b.t.Fatalf("recover: %v", err)
	}
}

// recovered returns the next service over the same stores, until the end of the test.
func recovered(t *testing.T, o service.Options) *service.Service {
	t.Helper()
	next, err := service.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.Close() })
	if err := next.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return next
}

// sealed checks that a log accepts no more frames.
func sealed(t *testing.T, o service.Options, id string) {
	t.Helper()
	log, err := o.Logs.Open(id)
	if err == nil {
		err = log.Append(belljar.Frame{Type: belljar.FrameHeartbeat})
	}
	if !errors.Is(err, logbook.ErrSealed) {
		t.Errorf("log of %s: %v", id, err)
	}
}

// The record of a running run has its request without the files, which are in its sandbox.
func TestRunningRunKeepsNoFiles(t *testing.T) {
	var o service.Options
	b := newBench(t, parts(&o))
	req := shell("cat f; sleep 1000")
	req.Files = []belljar.InlineFile{{Path: "f", Content: []byte("up")}}
	run := b.start(req)
	b.waitFor(run.ID, "up")
	if _, err := b.List(b.context(), belljar.RunQuery{}); err != nil { // records phases
		t.Fatal(err)
	}
	rows, err := o.Store.Runs().Unfinished(b.context())
	if err != nil || len(rows) != 1 || rows[0].Phase != belljar.PhaseRunning || rows[0].Spec == nil || len(rows[0].Spec.Command) == 0 || rows[0].Spec.Files != nil {
		t.Errorf("%+v, %v", rows, err)
	}
}

// A recovered queued run counts again towards its user's memory quota, and towards the node's bound.
func TestRecoveredRunClaimsMemory(t *testing.T) {
	var o service.Options
	b := newBench(t, parts(&o))
	again := shell("read x")
	again.Interactive = true
	row := leftRow(belljar.PhaseQueued, &again.RunSpec)
	leave(t, o, row, phases(belljar.PhaseQueued))
	b.recover()
	used := func() belljar.Me {
		t.Helper()
		me, err := b.service.As(service.Local()).Node().Me(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return me
	}
	if got := used().Used; got.MemoryMB == 0 || got.CPU == 0 {
		t.Errorf("while it runs: %+v", got)
	}
	if err := b.Cancel(b.context(), row.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(row.ID)
	b.service.WaitIdle()
	if got := used().Used; got.MemoryMB != 0 || got.CPU != 0 {
		t.Errorf("after its end: %+v", got)
	}
}

// Queued runs execute. Runs that had left the queue are lost, whatever their logs contain.
func TestRecover(t *testing.T) {
	var o service.Options
	var events diary
	b := newBench(t, func(o *service.Options) { o.Events = &events }, parts(&o))
	again := shell("echo after all")
	queued := leftRow(belljar.PhaseQueued, &again.RunSpec)
	leave(t, o, queued, phases(belljar.PhaseQueued))
	logless := leftRow(belljar.PhaseQueued, &again.RunSpec)
	leave(t, o, logless, nil)
	starting, running, streams := leftRow(belljar.PhaseStarting, &again.RunSpec), leftRow(belljar.PhaseRunning, nil), leftRow(belljar.PhaseQueued, nil)
	leave(t, o, starting, nil)
	leave(t, o, running, phases(belljar.PhaseStarting, belljar.PhaseRunning))
	leave(t, o, streams, phases(belljar.PhaseQueued))
	elsewhere := leftRow(belljar.PhaseRunning, nil)
	elsewhere.NodeID = "other"
	leave(t, o, elsewhere, nil)
	if _, err := o.Blobs.Put(t.Context(), blob.Key{UserID: "local", RunID: running.ID, Path: "x"}, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}

	b.recover()
	for _, row := range []store.Run{queued, logless} {
		r := b.follow(row.ID)
		r.want(t, belljar.PhaseCompleted, 0, "")
		if r.stdout != "after all\n" || !r.CreatedAt.Equal(row.CreatedAt) {
			t.Errorf("printed %q, created %v", r.stdout, r.CreatedAt)
		}
	}
	for _, row := range []store.Run{starting, running, streams} {
		var last belljar.Frame
		for f, err := range b.Frames(t.Context(), row.ID, 1) {
			if err != nil {
				t.Fatal(err)
			}
			last = f
		}
		run, err := b.Get(t.Context(), row.ID)
		if err != nil || run.Phase != belljar.PhaseFailed || run.ReasonCode != belljar.ReasonNodeLost || run.FinishedAt == nil || !strings.Contains(run.Hint, "a new Idempotency-Key") {
			t.Errorf("%s: %+v, %v", row.Phase, run, err)
		}
		if last.Event != belljar.EventEnd || last.Data["reason_code"] != "node_lost" || last.Seq < 2 {
			t.Errorf("%s: the log ends with %+v", row.Phase, last)
		}
		sealed(t, o, row.ID)
	}
	if n := o.Blobs.(*blobs).count(); n != 0 {
		t.Errorf("%d artifacts without a record", n)
	}
	if got := events.named(event.RunFailed); len(got) != 3 || got[0].Caller.Source != "recovery" {
		t.Errorf("events: %+v", got)
	}
	if run, err := b.Get(t.Context(), elsewhere.ID); err != nil || run.Phase != belljar.PhaseRunning {
		t.Errorf("a run of another node: %+v, %v", run, err)
	}
	before := len(events.named(event.RunFailed))
	b.recover()
	if after := len(events.named(event.RunFailed)); after != before {
		t.Error("a second time found something to do")
	}
}

// Commands that run hold their slots before a queued run of a previous process can get one, even if that was created earlier.
func TestRecoverQueuedAfterRunning(t *testing.T) {
	w := newWorld(t, one)
	p := w.boot()
	gate := filepath.Join(t.TempDir(), "gate")
	running := p.start(shell("echo up; while [ ! -e " + gate + " ]; do sleep 0.01; done"))
	p.waitFor(running.ID, "up\n")
	p.kill()
	again := shell("echo again")
	older := leftRow(belljar.PhaseQueued, &again.RunSpec)
	older.CreatedAt = running.CreatedAt.Add(-time.Minute)
	if _, err := w.store.Runs().Insert(t.Context(), older, nil); err != nil {
		t.Fatal(err)
	}
	p = w.boot()
	if run, err := p.Get(t.Context(), older.ID); err != nil || run.Phase != belljar.PhaseQueued || run.EstimatedStartTime == nil {
		t.Errorf("while the other runs: %+v, %v", run, err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := p.follow(running.ID)
	first.want(t, belljar.PhaseCompleted, 0, "")
	then := p.follow(older.ID)
	then.want(t, belljar.PhaseCompleted, 0, "")
	if then.StartedAt.Before(*first.FinishedAt) {
		t.Errorf("it started at %v, before the other's end at %v", then.StartedAt, first.FinishedAt)
	}
}

// All queued runs of a previous process wait again, although the queue is shorter now.
func TestRecoverIntoAFullQueue(t *testing.T) {
	var o service.Options
	b := newBench(t, one, func(o *service.Options) { o.QueueLength = 1 }, parts(&o))
	var rows []store.Run
	for range 4 {
		again := shell("echo again")
		row := leftRow(belljar.PhaseQueued, &again.RunSpec)
		leave(t, o, row, phases(belljar.PhaseQueued))
		rows = append(rows, row)
	}
	b.recover()
	for _, row := range rows {
		b.follow(row.ID).want(t, belljar.PhaseCompleted, 0, "")
	}
}

// meeting is a runtime whose first calls of Attach wait for each other.
type meeting struct {
	runtime.Runtime
	first sync.WaitGroup
	calls atomic.Int32
	size  int32
}

func (m *meeting) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	if m.calls.Add(1) <= m.size {
		m.first.Done()
		met := make(chan struct{})
		go func() { defer close(met); m.first.Wait() }()
		select {
		case <-met:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return m.Runtime.Attach(ctx, id)
}

// Reattaching to a sandbox that responds slowly does not delay the others.
func TestRecoverConcurrently(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	gate := filepath.Join(t.TempDir(), "gate")
	script := shell("echo up; while [ ! -e " + gate + " ]; do sleep 0.01; done")
	runs := []belljar.Run{p.start(script), p.start(script)}
	for _, run := range runs {
		p.waitFor(run.ID, "up\n")
	}
	p.kill()
	p = w.boot(over(func(rt runtime.Runtime) runtime.Runtime {
		m := &meeting{Runtime: rt, size: int32(len(runs))}
		m.first.Add(len(runs))
		return m
	}))
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		p.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	}
}

// A log with an end determines the record, and gets no second end.
func TestRecoverFromTheLog(t *testing.T) {
	var o service.Options
	b := newBench(t, parts(&o))
	for reason, end := range map[belljar.Reason]map[string]any{
		"":                           {"phase": "completed", "exit_code": 0, "reason_code": nil},
		belljar.ReasonNonZeroExit:    {"phase": "failed", "exit_code": 3.0, "reason_code": "nonzero_exit"},
		belljar.ReasonNodeLost:       {"phase": "failed", "exit_code": nil, "reason_code": "node_lost"}, // killed while it recovered
		belljar.ReasonCanceledByUser: {"phase": "killed", "exit_code": nil, "reason_code": "canceled_by_user"},
	} {
		row := leftRow(belljar.PhaseRunning, nil)
		leave(t, o, row, append(phases(belljar.PhaseStarting, belljar.PhaseRunning),
			belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventEnd, Data: end}))
		b.recover()
		run, err := b.Get(t.Context(), row.ID)
		if err != nil || string(run.Phase) != end["phase"] || run.ReasonCode != reason || len(run.Warnings) != 1 {
			t.Errorf("%+v, %v, want %v", run, err, end)
		}
		if reason == belljar.ReasonCanceledByUser && run.Message != "canceled_by_user" {
			t.Errorf("message %q of a cancelled run", run.Message)
		}
		if code := end["exit_code"]; (run.ExitCode == nil) != (code == nil) || run.ExitCode != nil && *run.ExitCode != 0 && *run.ExitCode != 3 {
			t.Errorf("exit code %v, want %v", run.ExitCode, code)
		}
		ends := 0
		for f := range b.Frames(t.Context(), row.ID, 1) {
			if f.Event == belljar.EventEnd {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("%d ends", ends)
		}
		sealed(t, o, row.ID)
	}
}

// A run that is no longer permitted fails with that reason.
func TestRecoverDenied(t *testing.T) {
	var o service.Options
	b := newBench(t, parts(&o))
	big, gone := shell("true"), shell("true")
	big.Resources.MemoryMB = 1 << 20
	gone.BaseImage = "python:3"
	rows := map[belljar.Reason]store.Run{
		belljar.ReasonPolicyDenied:    leftRow(belljar.PhaseQueued, &big.RunSpec),
		belljar.ReasonImagePullFailed: leftRow(belljar.PhaseQueued, &gone.RunSpec),
	}
	for _, row := range rows {
		leave(t, o, row, phases(belljar.PhaseQueued))
	}
	b.recover()
	for reason, row := range rows {
		run, err := b.Get(t.Context(), row.ID)
		if err != nil || run.Phase != belljar.PhaseFailed || run.ReasonCode != reason || !strings.Contains(run.Message, "can no longer start") {
			t.Errorf("%s: %+v, %v", reason, run, err)
		}
	}
}

// A queued run that fails after its admission leaves no context in its session.
func TestRecoverWithoutItsContext(t *testing.T) {
	var o service.Options
	b := newBench(t, parts(&o))
	x := b.open()
	req := bash(x.ID, "new", "true")
	row := leftRow(belljar.PhaseQueued, &req.RunSpec)
	row.SessionID, row.Approval = x.ID, &belljar.Approval{Fingerprint: "of another request"}
	leave(t, o, row, phases(belljar.PhaseQueued))
	b.recover()
	if run, err := b.Get(t.Context(), row.ID); err != nil || run.Phase != belljar.PhaseFailed || run.ReasonCode != belljar.ReasonPolicyDenied {
		t.Errorf("%+v, %v", run, err)
	}
	if list, err := b.service.As(service.Local()).Contexts().List(t.Context(), x.ID); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A server that ends leaves its queue to the next one, if the store outlives it. Clients that follow a log get an error.
func TestCloseLeavesTheQueue(t *testing.T) {
	var o service.Options
	kept := &records{}
	b := newBench(t, one, recorded(kept), parts(&o))
	first, _ := b.busy()
	plain, streams := b.start(shell("echo later")), shell("true")
	streams.Upload = bytes.NewReader(nil)
	fed := b.start(streams)
	reading := make(chan error, 1)
	go func() {
		var err error
		for _, err = range b.Frames(context.Background(), plain.ID, 1) {
		}
		reading <- err
	}()
	if err := b.service.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-reading; belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("a reader of the queued run's log: %v", err)
	}
	for id, want := range map[string]belljar.Phase{first.ID: belljar.PhaseKilled, plain.ID: belljar.PhaseQueued, fed.ID: belljar.PhaseKilled} {
		if row, err := kept.Runs().Get(t.Context(), id); err != nil || row.Phase != want {
			t.Errorf("on record as %s, want %s (%v)", row.Phase, want, err)
		}
	}
	o.Clock = nil
	b.Runs = recovered(t, o).As(service.Local()).Runs()
	r := b.follow(plain.ID)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "later\n" {
		t.Errorf("printed %q", r.stdout)
	}
}

// A reader never sees the end of a run before it is on record.
func TestEndIsOnRecordFirst(t *testing.T) {
	entered, opened := make(chan struct{}), make(chan struct{})
	kept := &records{finish: func() error { close(entered); <-opened; return nil }}
	b := newBench(t, recorded(kept))
	run := b.start(shell("echo x"))
	frames := make(chan belljar.Frame, 100)
	go func() {
		for f := range b.Frames(context.Background(), run.ID, 1) {
			frames <- f
		}
		close(frames)
	}()
	<-entered
	for f := range frames {
		if f.Event == belljar.EventEnd {
			t.Error("the end can be read before it is on record")
		}
		if f.Type == belljar.FrameStdout {
			break
		}
	}
	if now, err := b.Get(t.Context(), run.ID); err != nil || now.Phase != belljar.PhaseRunning {
		t.Errorf("meanwhile %s, %v", now.Phase, err)
	}
	tail := b.Frames(b.context(), run.ID, belljar.Tail) // opened when the end is in the log but held back
	close(opened)
	for f := range tail {
		if f.Event != belljar.EventEnd {
			t.Errorf("the tail of a run that ends is %+v", f)
		}
	}
	row, err := kept.Runs().Get(t.Context(), run.ID)
	if err != nil || row.Phase != belljar.PhaseCompleted || row.LastSeq == 0 || row.Spec != nil {
		t.Errorf("on record when the end could be read: %+v, %v", row, err)
	}
	var last belljar.Frame
	for f := range frames {
		last = f
	}
	if last.Seq != row.LastSeq || last.Event != belljar.EventEnd {
		t.Errorf("last frame %+v, on record %d", last, row.LastSeq)
	}
}

// A sandbox of a dead process is removed.
func TestRecoverRemovesSandboxes(t *testing.T) {
	var o service.Options
	var removed []string
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { return remover{rt, &removed} }), parts(&o))
	row := leftRow(belljar.PhaseRunning, nil)
	leave(t, o, row, nil)
	b.recover()
	if !slices.Contains(removed, row.ID) {
		t.Errorf("removed %v", removed)
	}
}

type remover struct {
	runtime.Runtime
	removed *[]string
}

func (r remover) Remove(ctx context.Context, id string) error {
	*r.removed = append(*r.removed, id)
	return r.Runtime.Remove(ctx, id)
}
