//go:build linux

package native

import (
	"context"
	"errors"
	"reflect"

	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
)

// Blank implements [runtime.Claimer]. Memory and processor time are the cgroup's, which can be changed from outside. How
// many processes there may be is settled at birth: the agent hands its own limit on.
func (r *Runtime) Blank(spec runtime.Spec) runtime.Spec { return spec.Blank() }

// Claim implements [runtime.Claimer].
func (r *Runtime) Claim(ctx context.Context, from string, spec runtime.Spec) (runtime.Sandbox, error) {
	return made(r.rack.Claim(ctx, from, spec.ID, func(box jar.Box) error { return r.become(box.(*sandbox), spec) }))
}

// become puts a caller's limits in place of the blank's.
func (r *Runtime) become(s *sandbox, spec runtime.Spec) error {
	if err := r.check(spec); err != nil {
		return err
	}
	born := s.born
	born.ID, born.Lease = "", 0
	if !reflect.DeepEqual(spec.Blank(), born) {
		return errors.New("it was made for something else")
	}
	s.born = runtime.Spec{}
	k := kernelLimits(spec.Limits)
	changed := k.memory != s.rec.Memory
	if changed {
		// The warden first: it would set the blank's limit again after ours.
		s.rec.Memory = k.memory
		if err := s.watch(); err != nil {
			return &runtime.StepError{Step: jar.StepCgroup, Err: err}
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
