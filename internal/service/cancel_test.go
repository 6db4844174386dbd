//go:build linux

package service_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store/memory"
)

func TestCancelRunning(t *testing.T) {
	b := newBench(t)
	run := b.start(shell("trap '' TERM; echo begun; while :; do sleep 1000; done"))
	b.waitFor(run.ID, "begun")
	for range 3 {
		if err := b.Cancel(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
	}
	r := b.follow(run.ID)
	r.want(t, belljar.PhaseKilled, 137, belljar.ReasonCanceledByUser)
	if r.Message != "canceled_by_user" || r.Signal != "SIGKILL" {
		t.Errorf("message %q, signal %q", r.Message, r.Signal)
	}
	if err := b.Cancel(t.Context(), run.ID); err != nil {
		t.Errorf("cancel after the end: %v", err)
	}
	if again := b.follow(run.ID); again.FinishedAt.Compare(*r.FinishedAt) != 0 {
		t.Error("a cancel after the end changed the run")
	}
}

// A run of another server on the same store is not cancelled here, and takes no input here.
func TestCancelElsewhere(t *testing.T) {
	kept := memory.New()
	b := newBench(t, func(o *service.Options) { o.Store, o.Node.ID = kept, "here" })
	row := leftRow(belljar.PhaseRunning, nil)
	row.NodeID = "elsewhere"
	if _, err := kept.Runs().Insert(t.Context(), row, nil); err != nil {
		t.Fatal(err)
	}
	_, notFed := b.Stdin(t.Context(), row.ID)
	for what, err := range map[string]error{"cancel": b.Cancel(t.Context(), row.ID), "input": notFed} {
		if belljar.CodeOf(err) != belljar.CodeConflict || !strings.Contains(err.Error(), "not in this server") || !strings.Contains(belljar.HintOf(err), "that started it") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A command that ends in its grace period is still cancelled, with its own exit code.
func TestCancelledCommandExits(t *testing.T) {
	b := newBench(t, limited(func(l *belljar.Limits) { l.GraceSec = 30 }))
	run := b.start(shell("trap 'exit 7' TERM; echo begun; while :; do sleep 0.01; done"))
	b.waitFor(run.ID, "begun")
	if err := b.Cancel(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID).want(t, belljar.PhaseKilled, 7, belljar.ReasonCanceledByUser)
}

// A cancellation that arrives after the command's end, while its artifacts are copied, costs none of them, and does not wait for them.
func TestCancelWhileArtifactsAreCopied(t *testing.T) {
	held := &heldBlobs{begun: make(chan struct{}), proceed: make(chan struct{})}
	b := newBench(t, func(o *service.Options) { held.Store, o.Blobs = o.Blobs, held })
	req := shell("echo x > out; echo y > other")
	req.CapturePatterns = []string{"o*"}
	run := b.start(req)
	<-held.begun
	prompt, giveUp := context.WithTimeout(b.context(), 20*time.Second) // the copy may take a minute
	defer giveUp()
	if err := b.Cancel(prompt, run.ID); err != nil {
		t.Fatal(err)
	}
	close(held.proceed)
	b.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	if left, err := b.Artifacts.List(b.context(), run.ID); err != nil || len(left) != 2 || left[0].Skipped != "" || left[1].Skipped != "" {
		t.Errorf("left %+v, %v", left, err)
	}
}

// The end of a session stops the copying of its runs' artifacts, also after a cancellation that came too late to stop it.
func TestEndWhileArtifactsAreCopied(t *testing.T) {
	for name, cancelled := range map[string]bool{"deleted": false, "cancelled first": true} {
		t.Run(name, func(t *testing.T) {
			held := &heldBlobs{begun: make(chan struct{})}
			b := newBench(t, func(o *service.Options) { held.Store, o.Blobs = o.Blobs, held })
			x := b.open()
			run := b.start(with(in(x, "echo x > out"), func(s *belljar.RunSpec) { s.CapturePatterns = []string{"out"} }))
			<-held.begun
			ctx, giveUp := context.WithTimeout(b.context(), 20*time.Second) // a copy that continues takes a minute
			defer giveUp()
			if cancelled {
				if err := b.Cancel(ctx, run.ID); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.service.As(service.Local()).Sessions().Delete(ctx, x.ID); err != nil {
				t.Fatal(err)
			}
			r := b.follow(run.ID)
			r.want(t, belljar.PhaseCompleted, 0, "")
			if len(r.Warnings) == 0 {
				t.Error("no warning of the artifact that was not copied")
			}
		})
	}
}

func TestCancelStarting(t *testing.T) {
	for name, obedient := range map[string]bool{"obedient runtime": true, "stubborn runtime": false} {
		t.Run(name, func(t *testing.T) {
			var g *gate
			b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime {
				g = newGate(rt)
				g.obedient = obedient
				return g
			}))
			t.Cleanup(g.open) // before the service is closed, which waits for the sandbox that is being made
			run := b.start(shell("true"))
			<-g.entered
			if err := b.Cancel(t.Context(), run.ID); err != nil {
				t.Fatal(err)
			}
			r := b.follow(run.ID)
			r.want(t, belljar.PhaseKilled, -1, belljar.ReasonCanceledByUser)
			if r.StartedAt != nil {
				t.Errorf("started at %v", r.StartedAt)
			}
		})
	}
}

func TestCancelUpload(t *testing.T) {
	b := newBench(t)
	silent := newSilence()
	t.Cleanup(silent.Close)
	req := shell("true")
	req.Upload = silent
	run := b.start(req)
	if err := b.Cancel(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID).want(t, belljar.PhaseKilled, -1, belljar.ReasonCanceledByUser)
}

// A run that is cancelled at any moment ends once, with a reason.
func TestCancelRaces(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			run, err := b.Start(t.Context(), shell("exit 0"))
			if err != nil {
				t.Errorf("start: %v", err)
				return
			}
			wg.Go(func() {
				if err := b.Cancel(t.Context(), run.ID); err != nil {
					t.Errorf("cancel: %v", err)
				}
			})
			r := b.follow(run.ID)
			switch r.Phase {
			case belljar.PhaseCompleted, belljar.PhaseKilled:
			default:
				t.Errorf("%s: %s", r.Phase, r.Message)
			}
		})
	}
	wg.Wait()
}

func TestStartupTimeout(t *testing.T) {
	var g *gate
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { g = newGate(rt); return g }))
	t.Cleanup(g.open)
	req := shell("true")
	req.StartupTimeoutSec = 0.05
	r := b.run(req) // ends even if Create does not
	r.want(t, belljar.PhaseTimedOut, -1, belljar.ReasonStartupTimeout)
}

func TestStartupTimeoutOfUpload(t *testing.T) {
	b := newBench(t)
	silent := newSilence()
	t.Cleanup(silent.Close)
	req := shell("true")
	req.Upload, req.StartupTimeoutSec = silent, 0.2
	b.run(req).want(t, belljar.PhaseTimedOut, -1, belljar.ReasonStartupTimeout)
}

func TestSandboxDies(t *testing.T) {
	b := newBench(t)
	run := b.start(shell("echo begun; sleep 1000"))
	b.waitFor(run.ID, "begun")
	if err := b.fake.Remove(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID).want(t, belljar.PhaseFailed, 137, belljar.ReasonSandboxDied)
}

func TestProvisionFails(t *testing.T) {
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { return broken{rt} }))
	r := b.run(shell("true"))
	r.want(t, belljar.PhaseFailed, -1, belljar.ReasonProvisionFailed)
	if r.Hint != "mend it" {
		t.Errorf("hint %q", r.Hint)
	}
	e := r.frames[len(r.frames)-2]
	if e.Event != belljar.EventError || e.Data["step"] != "pivot_root" || e.Data["hint"] != "mend it" {
		t.Errorf("error event %+v", e)
	}
}

type broken struct{ runtime.Runtime }

func (broken) Create(context.Context, runtime.Spec) (runtime.Sandbox, error) {
	return nil, &runtime.StepError{Step: "pivot_root", Err: errors.New("no"), Hint: "mend it"}
}

func TestCloseDuringRuns(t *testing.T) {
	b := newBench(t)
	var ids []string
	for range 5 {
		run := b.start(shell("echo begun; sleep 1000"))
		b.waitFor(run.ID, "begun")
		ids = append(ids, run.ID)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := b.service.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if left, err := b.fake.List(t.Context()); err != nil || len(left) > 0 {
				t.Errorf("after Close there are %v, %v", left, err)
			}
		})
	}
	wg.Wait()
	if _, err := b.Start(t.Context(), shell("true")); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("start after Close: %v", err)
	}
	for _, id := range ids {
		r := b.follow(id)
		if r.Phase != belljar.PhaseKilled || r.Message != "belljar is shutting down" {
			t.Errorf("run after Close: %s, %q", r.Phase, r.Message)
		}
	}
}

// The kernel's counters distinguish failures, and cause only a warning for a run that succeeded.
func TestUsageDecides(t *testing.T) {
	one := int64(1)
	peak, pids := int64(100<<20), int64(7)
	for _, test := range []struct {
		name, script string
		usage        runtime.Usage
		phase        belljar.Phase
		code         int
		reason       belljar.Reason
		warnings     int
	}{
		{"oom", "exit 9", runtime.Usage{OOMKills: &one}, belljar.PhaseFailed, 9, belljar.ReasonOOMKilled, 0},
		{"oom survived", "exit 0", runtime.Usage{OOMKills: &one}, belljar.PhaseCompleted, 0, "", 1},
		{"pids", "exit 2", runtime.Usage{PidsRefused: &one}, belljar.PhaseFailed, 2, belljar.ReasonPidsLimit, 0},
		{"pids survived", "exit 0", runtime.Usage{PidsRefused: &one}, belljar.PhaseCompleted, 0, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.usage.PeakMemory, test.usage.PeakPids = &peak, &pids
			test.usage.Sources = map[string]string{"peak_memory": "m", "peak_pids": "p"}
			b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { return &meter{rt, test.usage} }))
			r := b.run(shell(test.script))
			r.want(t, test.phase, test.code, test.reason)
			if len(r.Warnings) != test.warnings+1 { // one reports that the fake runtime enforces nothing
				t.Errorf("warnings %q", r.Warnings)
			}
			u := r.ResourceUsage
			if u.PeakRSSMB == nil || *u.PeakRSSMB != 100 || u.Pids == nil || *u.Pids != 7 || u.Sources["pids"] != "p" {
				t.Errorf("usage %+v", u)
			}
		})
	}
}

// A command that ran counts as a process, even if subtracting the agent's processes from the peak leaves none. A command that never
// ran does not count.
func TestPeakOfProcesses(t *testing.T) {
	none := int64(0)
	usage := runtime.Usage{PeakPids: &none, Sources: map[string]string{"peak_pids": "p"}}
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { return &meter{rt, usage} }))
	for name, want := range map[string]int{"true": 1, "/no/such/program": 0} {
		r := b.run(command(name))
		if got := r.ResourceUsage.Pids; got == nil || *got != want {
			t.Errorf("%s: pids %v, want %d", name, got, want)
		}
	}
}

// freezer is a runtime whose agents stop responding when it freezes.
type freezer struct {
	runtime.Runtime
	frozen chan struct{}
}

func (f *freezer) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := f.Runtime.Create(ctx, spec)
	return &frosty{box, f.frozen}, err
}

type frosty struct {
	runtime.Sandbox
	frozen chan struct{}
}

func (f *frosty) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := f.Sandbox.Dial(ctx)
	return &cold{Conn: conn, frozen: f.frozen, closed: make(chan struct{})}, err
}

// cold is a connection that delivers nothing once it is frozen.
type cold struct {
	net.Conn
	frozen, closed chan struct{}
	once           sync.Once
}

func (c *cold) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.frozen:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *cold) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A command whose end is never reported is abandoned, and its sandbox is removed.
func TestSilentAgent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cancel bool
		phase  belljar.Phase
		reason belljar.Reason
	}{
		"timeout": {false, belljar.PhaseTimedOut, belljar.ReasonExecutionTimeout},
		"cancel":  {true, belljar.PhaseKilled, belljar.ReasonCanceledByUser},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &freezer{frozen: make(chan struct{})}
			b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { f.Runtime = rt; return f }), func(o *service.Options) {
				o.Slack = 100 * time.Millisecond
			})
			req := shell("echo begun; sleep 1000")
			if !test.cancel {
				req.TimeoutSec = late
			}
			run := b.start(req)
			b.waitFor(run.ID, "begun")
			close(f.frozen)
			if test.cancel {
				if err := b.Cancel(t.Context(), run.ID); err != nil {
					t.Fatal(err)
				}
			}
			b.follow(run.ID).want(t, test.phase, 137, test.reason)
		})
	}
}
