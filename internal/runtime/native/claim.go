//go:build linux

package native

import (
	"context"

	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
)

// Claim implements [runtime.Claimer].
func (r *Runtime) Claim(ctx context.Context, from string, spec runtime.Spec) (runtime.Sandbox, error) {
	return r.Rack.Claim(ctx, from, spec, func(box jar.Box) error { return r.become(box.(*sandbox), spec) })
}

// become puts a caller's limits in place of the blank's.
func (r *Runtime) become(s *sandbox, spec runtime.Spec) error {
	if err := r.check(spec); err != nil {
		return err
	}
	born, err := s.Claimed(spec)
	if err != nil {
		return err
	}
	k := kernelLimits(spec.Limits)
	changed := k.memory != s.rec.Memory
	if changed {
		// Change the warden's limit first: otherwise it would set the blank's limit again after ours.
		s.rec.Memory = k.memory
		if err := s.watch(); err != nil {
			return runtime.FailedStep(jar.StepCgroup, err, "")
		}
	}
	if err := s.Change(kernelLimits(born.Limits).cgroup(), k.cgroup()); err != nil {
		return err
	}
	if !changed {
		return nil
	}
	return s.Rewrite(s.rec)
}
