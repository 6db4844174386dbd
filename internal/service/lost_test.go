//go:build linux

package service_test

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// losing is a runtime that can become unavailable.
type losing struct {
	runtime.Runtime
	gone *atomic.Bool
}

func (l losing) Probe(ctx context.Context) (runtime.Capabilities, error) {
	if l.gone.Load() {
		return runtime.Capabilities{Reasons: []runtime.Reason{{Code: "host_prerequisite_missing", Step: "engine", Detail: "the engine is gone", Hint: "start it"}}}, nil
	}
	return l.Runtime.Probe(ctx)
}

func (l losing) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	if l.gone.Load() {
		return nil, &runtime.StepError{Step: "engine", Err: errors.New("broken pipe")}
	}
	return l.Runtime.Create(ctx, spec)
}

// If a runtime stops working, the first run fails with the missing requirement. Later runs are refused immediately, until it works again.
func TestRuntimeLostAndFound(t *testing.T) {
	gone, text := &atomic.Bool{}, &shared{}
	b := newBench(t, func(o *service.Options) {
		o.Runtimes[0], o.Logger = losing{o.Runtimes[0], gone}, slog.New(slog.NewTextHandler(text, nil))
	})
	if r := b.follow(b.start(shell("true")).ID); r.Phase != belljar.PhaseCompleted {
		t.Fatalf("%+v", r.Run)
	}
	gone.Store(true)
	r := b.follow(b.start(shell("true")).ID)
	if r.Phase != belljar.PhaseFailed || r.ReasonCode != belljar.ReasonProvisionFailed || !strings.Contains(r.Message, "the engine is gone") {
		t.Errorf("%+v", r.Run)
	}
	if log := text.String(); !regexp.MustCompile(`level=WARN msg="run ended" .* message=".*the engine is gone`).MatchString(log) || strings.Count(log, "level=INFO msg=\"run ended\"") != 1 {
		t.Errorf("the log has no reason:\n%s", log)
	}
	_, err := b.Start(b.context(), shell("true"))
	if belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || belljar.HintOf(err) != "start it" {
		t.Errorf("%v", err)
	}
	gone.Store(false)
	if r := b.follow(b.start(shell("true")).ID); r.Phase != belljar.PhaseCompleted {
		t.Errorf("%+v", r.Run)
	}
}

// stocked is a losing runtime whose engine has images of its own.
type stocked struct{ losing }

func (s stocked) Image(context.Context, string) (runtime.Root, error) {
	if s.gone.Load() {
		return runtime.Root{}, &runtime.StepError{Step: "engine", Err: errors.New("connection refused"), Hint: "look at its log"}
	}
	return runtime.Root{}, runtime.ErrNoImage
}

func (s stocked) Pull(context.Context, string, func(belljar.ImageProgress)) (runtime.Root, error) {
	return runtime.Root{}, runtime.ErrNoImage
}

func (s stocked) Images(context.Context) ([]belljar.Image, error) { return nil, nil }

// A request for an image of an unavailable engine gets the engine's fault and a hint. The service then knows that the engine is unavailable.
func TestEngineLost(t *testing.T) {
	gone := &atomic.Bool{}
	b := newBench(t, func(o *service.Options) { o.Runtimes[0] = stocked{losing{o.Runtimes[0], gone}} })
	request := shell("true")
	request.BaseImage = "example.org/none:1"
	b.follow(b.start(shell("true")).ID) // records that it works
	gone.Store(true)
	if _, err := b.service.Faults(b.context()); err != nil {
		t.Errorf("an engine that worked when it was last asked: %v", err)
	}
	_, err := b.Start(b.context(), request)
	if belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || belljar.HintOf(err) != "start it" || !strings.Contains(err.Error(), "the engine is gone") {
		t.Errorf("%v, hint %q", err, belljar.HintOf(err))
	}
	if _, err := b.service.Faults(b.context()); err == nil || !strings.Contains(err.Error(), "the engine is gone") {
		t.Errorf("an engine that is gone: %v", err)
	}
	gone.Store(false)
	if _, err := b.service.Faults(b.context()); err != nil {
		t.Errorf("an engine that is back: %v", err)
	}
}

// forbidden is a runtime whose probe does not show that the host forbids its sandboxes. Its test does.
type forbidden struct{ runtime.Runtime }

func (f forbidden) Test(ctx context.Context) (runtime.Capabilities, error) {
	caps, err := f.Probe(ctx)
	caps.Refuse(runtime.Reason{Code: "host_permission_denied", Step: "userns", Detail: "no user namespaces", Hint: "allow them"})
	return caps, err
}

func (f forbidden) Create(context.Context, runtime.Spec) (runtime.Sandbox, error) {
	return nil, &runtime.StepError{Step: "userns", Err: errors.New("no space left on device")}
}

// After a run that the host does not allow, the server is not ready, although the probe shows nothing.
func TestForbiddenRuntime(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Runtimes[0] = forbidden{o.Runtimes[0]} })
	if _, err := b.service.Faults(b.context()); err != nil {
		t.Errorf("at first: %v", err)
	}
	if r := b.follow(b.start(shell("true")).ID); r.ReasonCode != belljar.ReasonProvisionFailed || !strings.Contains(r.Message, "no user namespaces") {
		t.Errorf("%+v", r.Run)
	}
	if _, err := b.service.Faults(b.context()); err == nil || !strings.Contains(err.Error(), "no user namespaces") {
		t.Errorf("after a run: %v", err)
	}
	if _, err := b.Start(b.context(), shell("true")); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || belljar.HintOf(err) != "allow them" {
		t.Errorf("the next run: %v", err)
	}
}

// A server is not ready if requests that set no trust level are refused, although its default runtime works.
func TestFaultOfTheDefaultTrust(t *testing.T) {
	for name, c := range map[string]struct {
		strong, off, ready bool
	}{"missing": {}, "present": {strong: true, ready: true}, "no execution": {off: true, ready: true}} {
		b := newBench(t, func(o *service.Options) {
			o.Policy = service.DefaultPolicy()
			o.Policy.DefaultTrust = belljar.TrustUntrusted
			o.Policy.EnableExecution = !c.off
			o.Runtimes = append(o.Runtimes, posing{o.Runtimes[0], "another", func(caps *runtime.Capabilities) {
				caps.Isolation = runtime.IsolationUserKernel
				if !c.strong {
					caps.Refuse(runtime.Reason{Detail: "no gVisor"})
				}
			}})
		})
		if _, err := b.service.Faults(b.context()); (err == nil) != c.ready || err != nil && !strings.Contains(err.Error(), "no gVisor") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
