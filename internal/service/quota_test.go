//go:build linux

package service_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

func TestCPUQuota(t *testing.T) {
	clock := newHourglass()
	var events diary
	var o service.Options
	b := newBench(t, func(o *service.Options) {
		o.Clock, o.Events, o.Quota.CPUSecondsPerDay = clock, &events, 100
	}, parts(&o))
	mine := b.service.As(belljar.Caller{ID: "greedy"})
	x, err := mine.Sessions().Create(t.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	spent, now := 100.074, clock.Now()
	row := leftRow(belljar.PhaseRunning, nil)
	row.UserID = "greedy"
	leave(t, o, row, nil)
	row.Phase, row.FinishedAt, row.ResourceUsage = belljar.PhaseCompleted, &now, &belljar.ResourceUsage{CPUTimeSec: &spent}
	if err := o.Store.Runs().Finish(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	_, err = b.as("greedy").Start(t.Context(), shell("true"))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeQuotaExceeded || e.Details["limit"] != 100.0 || e.Details["used"] != spent ||
		e.Message != "100.07 of 100 CPU seconds of the day are used up" ||
		e.Details["retry_after_sec"] != 24*3600+1 {
		t.Fatalf("%+v", err)
	}
	_, err = mine.Sessions().Create(t.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host"}})
	refusedAs(t, "a session", err, belljar.CodeQuotaExceeded)
	_, err = mine.Contexts().Create(t.Context(), x.ID, belljar.ContextSpec{Language: "bash"})
	refusedAs(t, "a context", err, belljar.CodeQuotaExceeded)
	if _, err := mine.Contexts().List(t.Context(), x.ID); err != nil {
		t.Error(err)
	}
	if got := events.named(event.Denied); len(got) != 3 || got[0].Caller.ID != "greedy" || got[0].Reason != "quota_exceeded" {
		t.Errorf("events: %+v", got)
	}
	b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "") // of another user

	clock.pass(24 * time.Hour)
	run, err := b.as("greedy").Start(t.Context(), shell("true"))
	if err != nil {
		t.Fatalf("the next day: %v", err)
	}
	b.follow(run.ID)
}

// A run is charged by the host's figure. Its own figure is the agent's, which a program that took over the agent could forge.
func TestCPUQuotaByTheHost(t *testing.T) {
	cpu := 20 * time.Second
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { return &meter{rt, runtime.Usage{CPU: &cpu}} }),
		func(o *service.Options) { o.Quota.CPUSecondsPerDay = 100 })
	r := b.run(shell("true"))
	me, err := b.service.As(service.Local()).Node().Me(b.context())
	if err != nil || me.Used.CPUSecondsToday != 20 || r.ResourceUsage.CPUTimeSec == nil || *r.ResourceUsage.CPUTimeSec > 10 {
		t.Errorf("%+v of %+v, %v", me.Used, r.ResourceUsage, err)
	}
}

// The usage of a session outside of its runs counts towards its owner's day, once, also if the server is restarted meanwhile.
func TestCPUQuotaOfASession(t *testing.T) {
	cpu := time.Millisecond // usage of the sandbox, which is read during the first run or after it
	w := newWorld(t, over(func(rt runtime.Runtime) runtime.Runtime { return &meter{rt, runtime.Usage{CPU: &cpu}} }),
		func(o *service.Options) { o.Quota.CPUSecondsPerDay = 100 })
	p := w.boot()
	x := p.open()
	used := func(what string, least, most float64) {
		t.Helper()
		me, err := p.service.As(service.Local()).Node().Me(p.context())
		if err != nil || me.Used.CPUSecondsToday < least || me.Used.CPUSecondsToday > most {
			t.Errorf("%s: %+v, %v", what, me.Used, err)
		}
	}
	reap := func() { p.service.Reap(t.Context()) }
	p.run(in(x, "true")).want(t, belljar.PhaseCompleted, 0, "")
	used("a brief run", 0.0001, 10)
	cpu = 20 * time.Second
	reap()
	used("in the background", 20, 20)
	reap()
	used("nothing since", 20, 20)
	cpu = 50 * time.Second
	p.run(in(x, "exit 1"))
	used("a run with others beside it", 50, 50)
	cpu = 60 * time.Second
	if err := p.service.Close(); err != nil {
		t.Error(err)
	}
	p = w.boot()
	reap()
	used("a restart", 60, 60)
	cpu = 101 * time.Second
	reap()
	used("after the restart", 101, 101)
	_, opened := p.terminals("").Open(p.context(), x.ID, belljar.TerminalSpec{})
	_, begun := p.service.As(service.Local()).Runs().Start(p.context(), in(x, "true"))
	if belljar.CodeOf(opened) != belljar.CodeQuotaExceeded || belljar.CodeOf(begun) != belljar.CodeQuotaExceeded {
		t.Errorf("at the limit: a terminal %v, a run %v", opened, begun)
	}
	cpu += time.Second
	p.end(x)
	used("the end", 102, 102)
}

// A sandbox that dies with its counters costs its owner the time that it can have used at most. A run that never started costs nothing.
func TestCPUQuotaOfADeadSandbox(t *testing.T) {
	for name, start := range map[string]func(b *bench, script string) (sandbox, run string){
		"run": func(b *bench, script string) (string, string) {
			id := b.start(shell(script)).ID
			return id, id
		},
		"session": func(b *bench, script string) (string, string) {
			x := b.open()
			return x.ID, b.start(in(x, script)).ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			var o service.Options
			b := newBench(t, parts(&o))
			begun := time.Now()
			sandbox, run := start(b, "echo begun; sleep 1000")
			b.waitFor(run, "begun")
			ran := time.Now()
			if err := b.fake.Remove(t.Context(), sandbox); err != nil {
				t.Fatal(err)
			}
			least := time.Since(ran).Seconds()
			r := b.follow(run)
			r.want(t, belljar.PhaseFailed, 137, belljar.ReasonSandboxDied)
			if err := b.service.Close(); err != nil { // after the session's last bill
				t.Fatal(err)
			}
			used, err := o.Store.Users().Usage(t.Context(), service.Local().ID, time.Now())
			if most := time.Since(begun).Seconds(); err != nil || used.CPUSecondsToday < least || used.CPUSecondsToday > most || r.ResourceUsage.CPUTimeSec != nil {
				t.Errorf("charged %v s of %v to %v, shown %v, %v", used.CPUSecondsToday, least, most, r.ResourceUsage.CPUTimeSec, err)
			}
		})
	}
	var o service.Options
	b := newBench(t, parts(&o))
	b.run(command("/no/such/program"))
	if used, err := o.Store.Users().Usage(t.Context(), service.Local().ID, time.Now()); err != nil || used.CPUSecondsToday != 0 {
		t.Errorf("a run that never started: %v, %v", used, err)
	}
}

// Runs that end concurrently do not use the same space twice, and a run without any space left still executes.
func TestArtifactQuota(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Quota.ArtifactMB = 1 })
	var wg sync.WaitGroup
	var mu sync.Mutex
	var kept, skipped int
	for range 6 {
		wg.Go(func() {
			req := shell("head -c 400000 /dev/zero > f")
			req.CapturePatterns = []string{"f"}
			r := b.run(req)
			r.want(t, belljar.PhaseCompleted, 0, "")
			list, err := b.Artifacts.List(t.Context(), r.ID)
			if err != nil || len(list) != 1 {
				t.Errorf("%+v, %v", list, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch list[0].Skipped {
			case "":
				kept++
			case "artifact_quota_exceeded":
				skipped++
				if !strings.Contains(strings.Join(r.Warnings, "\n"), "quota") {
					t.Errorf("warnings %q", r.Warnings)
				}
			default:
				t.Errorf("skipped %q", list[0].Skipped)
			}
		})
	}
	wg.Wait()
	if kept != 2 || skipped != 4 || b.used() != 800_000 {
		t.Errorf("%d kept, %d skipped, %d bytes used", kept, skipped, b.used())
	}
}

// Names of empty files stay on record as long as their run: many long ones count to the quota, which bounds them.
func TestArtifactNamesCount(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Quota.ArtifactMB = 1 })
	name := strings.Repeat("n", 250)
	req := shell("for i in $(seq 10000 12999); do : >${i}" + name + "; done")
	req.CapturePatterns = []string{"*"}
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if n := r.ResourceUsage.ArtifactBytes; n != 3000*255-64<<10 || b.used() != n {
		t.Errorf("%d bytes, %d of the quota", n, b.used())
	}
	r = b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	list, err := b.Artifacts.List(t.Context(), r.ID)
	if err != nil || len(list) >= 3000 || !strings.Contains(strings.Join(r.Warnings, "\n"), "quota of artifact bytes is used up") || b.used() > 1<<20 {
		t.Errorf("%d artifacts, %q, %d bytes used, %v", len(list), r.Warnings, b.used(), err)
	}
}

// The stored quota goes over the default.
func TestQuotaOfAUser(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Quota = belljar.Quota{ConcurrentRuns: 3, CPUSecondsPerDay: 5} })
	admin := b.service.As(service.Local()).Admin()
	if got, err := admin.Quota(t.Context(), "a"); err != nil || got.ConcurrentRuns != 3 || got.ArtifactMB != 128 {
		t.Errorf("%+v, %v", got, err)
	}
	own := belljar.Quota{ConcurrentRuns: 1, ArtifactMB: 7}
	if err := admin.SetQuota(t.Context(), "a", &own); err != nil {
		t.Fatal(err)
	}
	own.Own = true
	if got, err := admin.Quota(t.Context(), "a"); err != nil || got != own {
		t.Errorf("%+v, %v", got, err)
	}
	me, err := b.service.As(belljar.Caller{ID: "a"}).Node().Me(t.Context())
	if err != nil || me.Quota != own {
		t.Errorf("%+v, %v", me.Quota, err)
	}
	for field, q := range map[string]belljar.Quota{
		"artifact_mb": {ArtifactMB: -1}, "cpu_seconds_per_day": {CPUSecondsPerDay: -1}, "log_mb": {LogMB: 1 << 43}, "egress_mb_per_day": {EgressMBPerDay: math.MaxInt},
	} {
		var e *belljar.Error
		if err := admin.SetQuota(t.Context(), "a", &q); !errors.As(err, &e) || e.Details["field"] != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := admin.SetQuota(t.Context(), "", &own); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("nobody's: %v", err)
	}
	for range 2 { // also if there is none
		if err := admin.SetQuota(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		if got, err := admin.Quota(t.Context(), "a"); err != nil || got.ConcurrentRuns != 3 || got.ArtifactMB != 128 || got.Own {
			t.Errorf("after its removal: %+v, %v", got, err)
		}
	}
}

// The caps of all of a user's sandboxes, of runs and sessions, count together towards the quota, and are released when the sandboxes are removed.
func TestSandboxQuota(t *testing.T) {
	for _, c := range []struct {
		quota              string
		used, asked, limit float64
		of                 belljar.Quota
	}{
		{"memory_mb", 300, 300, 500, belljar.Quota{MemoryMB: 500}},
		{"cpu", 1, 1, 1.5, belljar.Quota{CPU: 1.5}},
	} {
		t.Run(c.quota, func(t *testing.T) {
			b := newBench(t, limited(func(l *belljar.Limits) { l.MemoryMB, l.WorkspaceMB, l.TmpMB, l.CPU = 100, 56, 64, 1 }),
				func(o *service.Options) { o.Quota.MemoryMB, o.Quota.CPU = c.of.MemoryMB, c.of.CPU })
			refused := func(err error) {
				t.Helper()
				var e *belljar.Error
				if !errors.As(err, &e) || e.Code != belljar.CodeQuotaExceeded || e.Details["quota"] != c.quota || e.Details["used"] != c.used ||
					e.Details["asked"] != c.asked || e.Details["limit"] != c.limit {
					t.Errorf("%+v", err)
				}
			}
			first, err := b.sessions("ann").Create(t.Context(), spec())
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.sessions("ann").Create(t.Context(), spec())
			refused(err)
			_, err = b.as("ann").Start(t.Context(), shell("true"))
			refused(err)
			b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "") // of another user
			me, err := b.service.As(belljar.Caller{ID: "ann"}).Node().Me(t.Context())
			if err != nil || me.Used.MemoryMB != 300 || me.Used.CPU != 1 || me.Quota.MemoryMB != c.of.MemoryMB || me.Quota.CPU != c.of.CPU {
				t.Errorf("me: %+v of %+v, %v", me.Used, me.Quota, err)
			}
			if err := b.sessions("ann").Delete(t.Context(), first.ID); err != nil {
				t.Fatal(err)
			}
			if again, err := b.sessions("ann").Create(t.Context(), spec()); err != nil {
				t.Errorf("when it is gone: %v", err)
			} else if err := b.sessions("ann").Delete(t.Context(), again.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a sandbox needs only while its packages or presets are prepared counts until then, and not again when its session wakes.
func TestMemoryAfterPreparation(t *testing.T) {
	var created func()
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { return reporter{rt, func() { created() }} }), limited(func(l *belljar.Limits) { l.MemoryMB, l.WorkspaceMB, l.TmpMB = 100, 56, 64 }), func(o *service.Options) {
		o.Runtimes[0], o.Policy = claiming{o.Runtimes[0], relays}, service.DefaultPolicy()
		o.Policy.EgressPresets, o.Policy.PackageMirrors = []string{"go"}, []string{"go=https://go.example.com"}
	})
	used := func(when string, want int) {
		t.Helper()
		me, err := b.service.As(service.Local()).Node().Me(b.context())
		if err != nil || me.Used.MemoryMB != want {
			t.Errorf("%s: %+v, %v", when, me.Used, err)
		}
	}
	n := 0
	created = func() { used("while a sandbox is made", 300); n++ }
	x := b.open(func(r *belljar.SessionRequest) {
		r.NetworkPolicy, r.Egress.Presets = belljar.NetworkAllowlist, []string{"go"}
	})
	if used("one", 300); len(x.Presets) != 1 {
		t.Errorf("%+v", x.Presets)
	}
	b.sleeping(x.ID)
	used("hibernated", 0)
	(&cabinet{b.service.As(service.Local()).Files(), b, x}).write("a", "") // wakes it
	used("woken", 300)
	b.end(x)
	req := shell("true")
	req.NetworkPolicy, req.Egress.Presets = belljar.NetworkAllowlist, []string{"go"}
	if b.run(req); n != 3 {
		t.Errorf("%d sandboxes", n)
	}
}

// reporter is a runtime that reports the creation of a sandbox before it begins.
type reporter struct {
	runtime.Runtime
	before func()
}

func (r reporter) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	r.before()
	return r.Runtime.Create(ctx, spec)
}

// When the response reports the end of a run, its sandbox no longer counts towards its user's quota.
func TestSandboxQuotaBetweenRuns(t *testing.T) {
	var destroyed func(id string)
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { return onlooker{rt, func(id string) { destroyed(id) }} }),
		limited(func(l *belljar.Limits) { l.MemoryMB, l.WorkspaceMB, l.TmpMB = 100, 56, 64 }), func(o *service.Options) { o.Quota.MemoryMB = 500 })
	destroyed = func(id string) {
		if run, err := b.Get(t.Context(), id); err != nil || run.Phase.Terminal() {
			t.Errorf("destroyed when it was %s, %v", run.Phase, err)
		}
	}
	for range 2 {
		b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
	}
}

// onlooker is a runtime that reports the destruction of a sandbox before it begins.
type onlooker struct {
	runtime.Runtime
	before func(id string)
}

func (w onlooker) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := w.Runtime.Create(ctx, spec)
	return looked{box, func() { w.before(spec.ID) }}, err
}

type looked struct {
	runtime.Sandbox
	before func()
}

func (w looked) Destroy(ctx context.Context) error {
	w.before()
	return w.Sandbox.Destroy(ctx)
}
