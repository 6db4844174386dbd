package docker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	host "github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/tier"
)

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// command returns a shell command, to be run as the agent's user.
func command(t testing.TB, box runtime.Sandbox, script string) wire.Exec {
	t.Helper()
	info, err := host.New(box.Dial).Ping(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	return wire.Exec{
		ID: belljar.NewID(), Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin"}, UID: info.UID, GID: info.GID,
		GraceMS: 100, KillAll: true,
	}
}

func start(t testing.TB, box runtime.Sandbox, script string) *host.Process {
	t.Helper()
	p, err := host.New(box.Dial).Exec(within(t, patience), command(t, box, script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// run runs a script to its end, and returns its output and status.
func run(t testing.TB, box runtime.Sandbox, script string) (string, wire.Exit) {
	t.Helper()
	return follow(t, start(t, box, script))
}

func follow(t testing.TB, p *host.Process) (string, wire.Exit) {
	t.Helper()
	var b strings.Builder
	exit, err := p.Output(within(t, patience), func(_ int64, _ wire.Stream, text []byte) error {
		b.Write(text)
		return nil
	})
	if err != nil {
		t.Fatalf("%v after %q", err, b.String())
	}
	return b.String(), exit
}

func nothing(int64, wire.Stream, []byte) error { return nil }

func create(t testing.TB, r *docker.Runtime, s runtime.Spec) runtime.Sandbox {
	t.Helper()
	box, err := r.Create(within(t, patience), s)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func detached(s runtime.Spec) runtime.Spec {
	s.Lifetime = runtime.LifetimeDetached
	return s
}

// Sandboxes count as ended when their engine is killed for good. If it does come back, the remains on it are found and
// removed.
func TestEngineKilled(t *testing.T) {
	t.Parallel()
	engine := dockerd.New(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name(), Patience: 30 * time.Second})
	mine, other := spec(engine.Busybox(t)), detached(spec(engine.Busybox(t)))
	boxes := []runtime.Sandbox{create(t, r, mine), create(t, r, other)}
	p := start(t, boxes[1], "echo up; sleep 1000")
	engine.Kill(t)
	if _, err := p.Output(within(t, patience), nothing); !errors.Is(err, host.ErrDisconnected) {
		t.Errorf("the command: %v", err)
	}
	for _, box := range boxes {
		if exit, err := box.Wait(within(t, patience)); err != nil || exit.Reason != runtime.ExitEngineGone || exit.Detail == "" {
			t.Errorf("%+v, %v", exit, err)
		}
		if _, err := box.Dial(within(t, patience)); !errors.Is(err, runtime.ErrGone) {
			t.Errorf("dial: %v", err)
		}
	}
	if caps, err := r.Probe(within(t, patience)); err != nil || caps.Available || len(caps.Reasons) == 0 || caps.Reasons[0].Hint == "" {
		t.Errorf("%+v, %v", caps, err)
	}
	var step *runtime.StepError
	if _, err := r.Create(within(t, patience), spec("x")); !errors.As(err, &step) || step.Step != "engine" || step.Hint == "" {
		t.Errorf("create: %v", err)
	}
	if err := boxes[0].Destroy(within(t, patience)); err == nil {
		t.Error("a sandbox was destroyed on an engine that is away")
	}
	engine.Again(t)
	ids, err := r.List(within(t, patience))
	if err != nil || !slices.Contains(ids, mine.ID) || !slices.Contains(ids, other.ID) {
		t.Errorf("list: %v, %v", ids, err)
	}
	for _, id := range ids {
		if err := r.Remove(within(t, patience), id); err != nil {
			t.Error(err)
		}
	}
	if left := engine.Names(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	create(t, r, spec(engine.Busybox(t)))
}

// An engine that restarts with live restore keeps its containers: a detached sandbox continues.
func TestEngineRestartedUnderASandbox(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.New(t, "--live-restore")
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	box := create(t, r, detached(spec(engine.Busybox(t))))
	before, err := host.New(box.Dial).Ping(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	e := command(t, box, "echo one; read x; echo two $x")
	e.Stdin = true
	p, err := host.New(box.Dial).Exec(within(t, patience), e)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for name, end := range map[string]func(testing.TB){"stopped": engine.Stop, "killed": engine.Kill} {
		end(t)
		engine.Again(t)
		after, err := host.New(box.Dial).Ping(within(t, patience))
		if err != nil || after.BootID != before.BootID {
			t.Fatalf("%s: %+v, %v; before %+v", name, after, err, before)
		}
	}
	again, err := host.New(box.Dial).Attach(within(t, patience), e.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Write([]byte("more\n")); err != nil {
		t.Fatal(err)
	}
	if out, exit := follow(t, again); out != "one\ntwo more\n" || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
}

// Without live restore a restart of the engine ends its containers, and each sandbox reports that.
func TestEngineRestarted(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.New(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	s := detached(spec(engine.Busybox(t)))
	box := create(t, r, s)
	engine.Stop(t)
	engine.Again(t)
	exit, err := box.Wait(within(t, patience))
	if err != nil || exit.Reason != runtime.ExitEngineGone && exit.Reason != runtime.ExitKilled {
		t.Errorf("%+v, %v", exit, err)
	}
	if _, err := r.Attach(within(t, patience), s.ID); err == nil {
		if _, err := box.Dial(within(t, patience)); !errors.Is(err, runtime.ErrGone) {
			t.Errorf("dial: %v", err)
		}
	}
	if err := box.Destroy(within(t, patience)); err != nil {
		t.Error(err)
	}
	if left := engine.Names(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A slow engine delays no caller beyond its deadline, and a container that the engine creates later can be removed.
func TestEngineSlow(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.New(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	image := engine.Busybox(t)
	box := create(t, r, spec(image))
	thaw := engine.Freeze(t)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	s := spec(image)
	if _, err := r.Create(ctx, s); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("create: %v", err)
	}
	if _, err := r.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("probe: %v", err)
	}
	thaw()
	if out, _ := run(t, box, "echo still here"); out != "still here\n" {
		t.Errorf("%q", out)
	}
	// An engine may execute a creation after the first removal: then a second removal is needed.
	for ctx := within(t, patience); ; {
		if err := r.Remove(ctx, s.ID); err != nil {
			t.Fatal(err)
		}
		ids, err := r.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(ids, s.ID) {
			return
		}
	}
}
