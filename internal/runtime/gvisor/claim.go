//go:build linux

package gvisor

import (
	"context"
	"errors"
	"reflect"

	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
)

// Blank implements [runtime.Claimer]. Memory and processor time are the cgroup's, which can be changed from outside. How
// many processes there may be is settled at birth: the agent in gVisor's kernel hands its own limit on.
func (r *Runtime) Blank(spec runtime.Spec) runtime.Spec { return spec.Blank() }

// Claim implements [runtime.Claimer].
func (r *Runtime) Claim(ctx context.Context, from string, spec runtime.Spec) (runtime.Sandbox, error) {
	return made(r.rack.Claim(ctx, from, spec.ID, func(box jar.Box) error { return r.become(box.(*sandbox), from, spec) }))
}

// become puts a caller's limits in place of the blank's.
func (r *Runtime) become(s *sandbox, from string, spec runtime.Spec) error {
	if err := r.check(spec); err != nil {
		return err
	}
	born := s.born
	born.ID, born.Lease = "", 0
	if !reflect.DeepEqual(spec.Blank(), born) {
		return errors.New("it was made for something else")
	}
	s.born = runtime.Spec{}
	was, k := s.limits, kernelLimits(spec.Limits, spec.Workspace, s.again)
	if err := setMemory(r.rack.Folder(from), k.programs); err != nil {
		return &runtime.StepError{Step: jar.StepState, Err: err}
	}
	s.limits = k
	return s.Change(was.cgroup(), k.cgroup())
}

// LimitMemory implements [runtime.MemoryLimiter]. The cgroup, which bounds gVisor as well, stays as it is.
func (s *sandbox) LimitMemory(_ context.Context, mb int) error {
	if err := setMemory(s.Folder(), int64(mb)<<20); err != nil {
		return &runtime.StepError{Step: jar.StepState, Err: err}
	}
	return nil
}
