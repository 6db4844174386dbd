//go:build linux

package service_test

import (
	"archive/tar"
	"bytes"
	"context"
	"flag"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	logbook "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store/memory"
	"github.com/belljar/belljar/test/leak"
	"github.com/belljar/belljar/test/nest"
)

// TestMain runs all parallel tests at the same time: they wait for a clock, and use no CPU meanwhile.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	os.Exit(nest.Main(func() int { return leak.Main(m) }))
}

// patience bounds every wait of a test. Only a test that hangs takes this long.
const patience = 3 * time.Minute

// late is the timeout, in seconds, of a command that must act before it: a busy machine may need long for that.
const late = 20

// bench is a service over a runtime, with helpers for tests.
type bench struct {
	belljar.Runs
	Artifacts belljar.Artifacts
	t         *testing.T
	service   *service.Service
	fake      *fake.Runtime
}

// claiming is a runtime that reports capabilities that it lacks.
type claiming struct {
	runtime.Runtime
	claim func(*runtime.Capabilities)
}

func (c claiming) Probe(ctx context.Context) (runtime.Capabilities, error) {
	caps, err := c.Runtime.Probe(ctx)
	c.claim(&caps)
	return caps, err
}

// newBench returns a service over the fake runtime. The options may be changed. Its cleanup checks for leftovers.
func newBench(t *testing.T, change ...func(*service.Options)) *bench {
	t.Helper()
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	opts := service.Options{
		Runtimes: []runtime.Runtime{rt},
		Store:    memory.New(),
		Logs:     logbook.New(),
		Blobs:    newBlobs(),
		Limits:   unhurried(),
		Slack:    patience,
		Require:  []string{},
	}
	for _, f := range change {
		f(&opts)
	}
	s, err := service.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the service: %v", err)
		}
		if left, err := rt.List(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("sandboxes left over: %v, %v", left, err)
		}
		if err := rt.Close(); err != nil {
			t.Errorf("close the runtime: %v", err)
		}
	})
	return &bench{Runs: s.As(service.Local()).Runs(), Artifacts: s.As(service.Local()).Artifacts(), t: t, service: s, fake: rt}
}

// unhurried returns limits that only a test for them reaches, even on a busy machine.
func unhurried() belljar.Limits {
	return belljar.Limits{NProc: 4096, GraceSec: 0.2, TimeoutSec: patience.Seconds(), BuildTimeoutSec: patience.Seconds(), StartupTimeoutSec: patience.Seconds()}
}

// result is a finished run with its output.
type result struct {
	belljar.Run
	frames         []belljar.Frame
	stdout, stderr string
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// start starts a run.
func (b *bench) start(req belljar.RunRequest) belljar.Run {
	b.t.Helper()
	run, err := b.Start(b.context(), req)
	if err != nil {
		b.t.Fatalf("start: %v", err)
	}
	return run
}

// follow reads a run's log to its end and checks the invariants of every log.
func (b *bench) follow(id string) result {
	b.t.Helper()
	var r result
	var stdout, stderr bytes.Buffer
	for f, err := range b.Frames(b.context(), id, 1) {
		if err != nil {
			b.t.Fatalf("frames: %v", err)
		}
		r.frames = append(r.frames, f)
		switch f.Type {
		case belljar.FrameStdout:
			stdout.Write(f.Output)
		case belljar.FrameStderr:
			stderr.Write(f.Output)
		}
	}
	r.stdout, r.stderr = stdout.String(), stderr.String()
	var err error
	if r.Run, err = b.Get(b.context(), id); err != nil {
		b.t.Fatalf("get: %v", err)
	}
	b.checkLog(r)
	return r
}

func (b *bench) checkLog(r result) {
	b.t.Helper()
	ends := 0
	for i, f := range r.frames {
		if f.Seq != uint64(i+1) {
			b.t.Errorf("frame %d has seq %d", i+1, f.Seq)
		}
		if len(f.Output) > belljar.MaxFrameBytes {
			b.t.Errorf("frame %d holds %d bytes", i+1, len(f.Output))
		}
		if f.Event == belljar.EventEnd {
			ends++
		}
	}
	last := r.frames[len(r.frames)-1]
	if ends != 1 || last.Event != belljar.EventEnd {
		b.t.Errorf("%d end events, the last frame is %+v", ends, last)
	}
	var code any
	if r.ExitCode != nil {
		code = *r.ExitCode
	}
	var reason any
	if r.ReasonCode != "" {
		reason = string(r.ReasonCode)
	}
	if d := last.Data; d["phase"] != string(r.Phase) || d["exit_code"] != code || d["reason_code"] != reason {
		b.t.Errorf("the end event says %v of %s, %v, %v", d, r.Phase, code, reason)
	}
	// The usage of a run is lost if its process is killed between the end of the log and the end of the record.
	warned := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "on record what this run used") })
	if !r.Phase.Terminal() || r.FinishedAt == nil || r.ResourceUsage == nil && !warned {
		b.t.Errorf("unfinished after its end: %+v", r.Run)
	}
	if (r.ReasonCode == "") != (r.Phase == belljar.PhaseCompleted) {
		b.t.Errorf("%s with reason %q", r.Phase, r.ReasonCode)
	}
}

// run carries a request to its end.
func (b *bench) run(req belljar.RunRequest) result {
	b.t.Helper()
	return b.follow(b.start(req).ID)
}

// waitFor reads a run's log until stdout contains text.
func (b *bench) waitFor(id, text string) {
	b.t.Helper()
	var seen []byte
	for f, err := range b.Frames(b.context(), id, 1) {
		if err != nil {
			b.t.Fatalf("frames: %v", err)
		}
		if f.Type == belljar.FrameStdout {
			seen = append(seen, f.Output...)
		}
		if bytes.Contains(seen, []byte(text)) {
			return
		}
	}
	b.t.Fatalf("the run ended without %q, after %q", text, seen)
}

// want checks how a run ended. code -1 means no exit code.
func (r result) want(t *testing.T, phase belljar.Phase, code int, reason belljar.Reason) {
	t.Helper()
	got := -1
	if r.ExitCode != nil {
		got = *r.ExitCode
	}
	if r.Phase != phase || got != code || r.ReasonCode != reason {
		t.Fatalf("%s, exit code %d, reason %q, message %q, stderr %q\nwant %s, %d, %q",
			r.Phase, got, r.ReasonCode, r.Message, r.stderr, phase, code, reason)
	}
}

func refusedAs(t *testing.T, what string, err error, want belljar.Code) {
	t.Helper()
	if err == nil || belljar.CodeOf(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// shell returns a request for a shell script.
func shell(script string) belljar.RunRequest {
	return command("/bin/sh", "-c", script)
}

// command returns a request for a command of the host.
func command(argv ...string) belljar.RunRequest {
	return belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.1", BaseImage: "host", Command: argv}}
}

// with returns a changed request.
func with(req belljar.RunRequest, change func(*belljar.RunSpec)) belljar.RunRequest {
	change(&req.RunSpec)
	return req
}

// limited changes the default limits of runs.
func limited(change func(*belljar.Limits)) func(*service.Options) {
	return func(o *service.Options) { change(&o.Limits) }
}

// over wraps the fake runtime.
func over(wrap func(runtime.Runtime) runtime.Runtime) func(*service.Options) {
	return func(o *service.Options) { o.Runtimes[0] = wrap(o.Runtimes[0]) }
}

// gate is a runtime whose Create waits. If obedient, it ends with its context, otherwise only when it is opened.
type gate struct {
	runtime.Runtime
	obedient bool
	entered  chan struct{}
	opened   chan struct{}
	open     func()
}

func newGate(rt runtime.Runtime) *gate {
	g := &gate{Runtime: rt, entered: make(chan struct{}), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	return g
}

func (g *gate) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	close(g.entered)
	if g.obedient {
		select {
		case <-g.opened:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	<-g.opened
	return g.Runtime.Create(context.WithoutCancel(ctx), spec)
}

// meter is a runtime whose sandboxes report usage.
type meter struct {
	runtime.Runtime
	usage runtime.Usage
}

func (m *meter) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := m.Runtime.Create(ctx, spec)
	return &metered{box, m.usage}, err
}

func (m *meter) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	box, err := m.Runtime.Attach(ctx, id)
	return &metered{box, m.usage}, err
}

type metered struct {
	runtime.Sandbox
	usage runtime.Usage
}

func (m *metered) Usage(context.Context) (runtime.Usage, error) {
	u := m.usage
	if u.CPU != nil {
		u.CPU = new(*u.CPU)
	}
	return u, nil
}

// archive returns a tar stream of files, by name.
func archive(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}
