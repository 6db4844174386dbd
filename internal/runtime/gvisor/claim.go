//go:build linux

package gvisor

import (
	"context"

	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
)

// Claim implements [runtime.Claimer].
func (r *Runtime) Claim(ctx context.Context, from string, spec runtime.Spec) (runtime.Sandbox, error) {
	return r.Rack.Claim(ctx, from, spec, func(box jar.Box) error { return r.become(box.(*sandbox), from, spec) })
}

// become puts a caller's limits in place of the blank's.
func (r *Runtime) become(s *sandbox, from string, spec runtime.Spec) error {
	if err := r.check(spec); err != nil {
		return err
	}
	if _, err := s.Claimed(spec); err != nil {
		return err
	}
	was, k := s.limits, kernelLimits(spec.Limits, spec.Workspace, s.again)
	if err := setMemory(r.Jars.Folder(from), k.programs); err != nil {
		return runtime.FailedStep(jar.StepState, err, "")
	}
	s.limits = k
	return s.Change(was.cgroup(), k.cgroup())
}

// LimitMemory implements [runtime.MemoryLimiter]. The cgroup, which bounds gVisor as well, stays as it is.
func (s *sandbox) LimitMemory(_ context.Context, mb int) error {
	if err := setMemory(s.Folder(), int64(mb)<<20); err != nil {
		return runtime.FailedStep(jar.StepState, err, "")
	}
	return nil
}
