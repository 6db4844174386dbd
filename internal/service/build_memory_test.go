//go:build linux

package service_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
)

// A compiler has the program's memory limit or, if a sandbox's limit can change, its own. Otherwise the run is refused.
func TestBuildMemoryIsRefused(t *testing.T) {
	rt := fake.New(fake.Options{Dir: t.TempDir(), Enforces: []string{runtime.ProtectMemory}}) // cannot change the limit
	t.Cleanup(func() { rt.Close() })
	b := newBench(t, func(o *service.Options) { o.Runtimes = []runtime.Runtime{rt} })
	ask := func(build, program int) belljar.RunRequest {
		req := compiled(t, "#!/bin/sh\n", map[string]string{"cc": takes})
		req.BuildMemoryMB, req.Resources.MemoryMB = build, program
		return req
	}
	_, err := b.Start(t.Context(), ask(128, 64))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["field"] != "build_memory_mb" || e.Hint == "" {
		t.Errorf("more than the program: %v", err)
	}
	b.run(ask(64, 64)).want(t, belljar.PhaseCompleted, 0, "")
	if _, err := b.Start(t.Context(), ask(7, 64)); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("less than anything needs: %v", err)
	}
	if _, err := b.Start(t.Context(), ask(1<<20, 64)); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("more than there is: %v", err)
	}
	script := shell("true")
	script.BuildMemoryMB = 1024 // nothing is built
	b.run(script).want(t, belljar.PhaseCompleted, 0, "")
}

// If memory has no limit, a limit for the compiler is refused like one for the program.
func TestBuildMemoryWithoutLimits(t *testing.T) {
	b := weakBench(t)
	req := compiled(t, "#!/bin/sh\n", map[string]string{"cc": takes})
	req.BuildMemoryMB = 128
	_, err := b.Start(t.Context(), req)
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["field"] != "build_memory_mb" {
		t.Errorf("%v", err)
	}
}

// resizing is a runtime whose sandboxes answer the second change of their memory limit with an error.
type resizing struct {
	runtime.Runtime
	second error
}

func (r resizing) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	s, err := r.Runtime.Create(ctx, spec)
	return &resizable{Sandbox: s, second: r.second}, err
}

type resizable struct {
	runtime.Sandbox
	changes int
	second  error
}

func (s *resizable) LimitMemory(context.Context, int) error {
	if s.changes++; s.changes == 2 {
		return s.second
	}
	return nil
}

// A compiler that leaves too much memory in use has failed. If the limit of its program cannot be set otherwise, the server has.
func TestMemoryAfterTheBuild(t *testing.T) {
	for _, test := range []struct {
		second error
		reason belljar.Reason
	}{
		{fmt.Errorf("x: %w", runtime.ErrMemoryHeld), belljar.ReasonCompileFailed},
		{&runtime.StepError{Step: "cgroup", Err: errors.New("no such file")}, belljar.ReasonProvisionFailed},
		{context.DeadlineExceeded, belljar.ReasonProvisionFailed},
	} {
		rt := fake.New(fake.Options{Dir: t.TempDir(), Enforces: []string{runtime.ProtectMemory}})
		t.Cleanup(func() { rt.Close() })
		b := newBench(t, func(o *service.Options) {
			o.Runtimes = []runtime.Runtime{claiming{resizing{rt, test.second}, func(c *runtime.Capabilities) { c.LimitMemory = true }}}
		})
		req := compiled(t, "#!/bin/sh\n", map[string]string{"cc": takes})
		req.BuildMemoryMB, req.Resources.MemoryMB = 128, 64
		if r := b.run(req); r.Phase != belljar.PhaseFailed || r.ReasonCode != test.reason || r.ExitCode != nil || r.StartedAt != nil {
			t.Errorf("%v: %+v", test.second, r.Run)
		}
	}
}
