//go:build linux

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// What a sandbox has until it is claimed: the least memory that a caller can ask for, and the time of one processor,
// which most ask for.
const (
	blankMB    = 8
	blankCores = 1
)

// Points of a claim, for tests that stop there, beside those of [roster.Roster.Rename].
const (
	claimLimited = "limited" // the new limits are in force
	claimNamed   = "named"   // it is the caller's
)

// Blank implements [runtime.Claimer]. Memory and processor time are the cgroup's, which can be changed from outside. How
// many processes there may be is settled at birth: the agent in gVisor's kernel hands its own limit on.
func (r *Runtime) Blank(spec runtime.Spec) runtime.Spec {
	l := spec.Limits
	spec.ID, spec.Lease, spec.Root.Env = "", 0, nil
	spec.Limits = belljar.Limits{
		CPU: blankCores, MemoryMB: blankMB, Pids: l.Pids, NProc: min(l.Pids, l.NProc), TmpMB: l.TmpMB, Inodes: l.Inodes,
	}
	spec.Require = slices.Compact(slices.Sorted(slices.Values(spec.Require)))
	return spec
}

// Claim implements [runtime.Claimer].
//
// Its cgroups and its host ids keep their names, by which the record knows them; the record lies in the folder and the
// lock file is the same file, so that the new name finds everything as soon as it is there. A daemon that is killed in
// the middle leaves a sandbox that one name or both find: List has them, and Remove removes it.
func (r *Runtime) Claim(ctx context.Context, from string, spec runtime.Spec) (runtime.Sandbox, error) {
	r.mu.Lock()
	s := r.living[from]
	r.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("claim sandbox %s: %w", from, runtime.ErrNotFound)
	}
	had, err := s.claim(ctx, from, spec)
	if err == nil {
		return s, nil
	}
	err = fmt.Errorf("claim sandbox %s: %w", from, err)
	if had {
		err = errors.Join(err, s.Destroy(ctx))
	}
	return nil, err
}

// claim makes from the caller's. had is false if somebody else had claimed it.
func (s *sandbox) claim(ctx context.Context, from string, spec runtime.Spec) (had bool, err error) {
	r := s.rt
	ctx, over, err := r.begin(ctx, spec.ID)
	if err != nil {
		return true, err
	}
	defer over()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != from {
		return false, runtime.ErrNotFound
	}
	if err := r.check(spec); err != nil {
		return true, err
	}
	if !reflect.DeepEqual(r.Blank(spec), blankOf(s.born)) {
		return true, errors.New("it was made for something else")
	}
	if err := s.limit(spec); err != nil {
		return true, &runtime.StepError{Step: stepCgroup, Err: err}
	}
	r.at(claimLimited)
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	if err := s.rename(spec.ID); err != nil {
		return true, &runtime.StepError{Step: stepState, Err: err}
	}
	s.born = runtime.Spec{}
	r.mu.Lock()
	delete(r.living, from)
	r.living[spec.ID] = s
	r.mu.Unlock()
	r.at(claimNamed)
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	if s.ended() {
		return true, runtime.ErrGone
	}
	return true, nil
}

// blankOf is the blank that a sandbox was made from, if it was.
func blankOf(born runtime.Spec) runtime.Spec {
	born.ID, born.Lease = "", 0
	return born
}

// limit puts a caller's limits in place of the blank's.
func (s *sandbox) limit(spec runtime.Spec) error {
	if s.group == nil {
		return nil
	}
	return s.group.Change(
		s.rt.enforced(kernelLimits(s.born.Limits, s.born.Workspace, s.again)),
		s.rt.enforced(kernelLimits(spec.Limits, spec.Workspace, s.again)),
	)
}

// rename gives what lies on disk of the sandbox another name, which must be free.
func (s *sandbox) rename(to string) error {
	err := s.rt.roster.Rename(s.id, to, s.rt.at)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("sandbox %s exists", to)
	}
	if err == nil {
		s.id = to
	}
	return err
}

// grouped says whether a sandbox that had the name before it was claimed lives on in the cgroups of that name.
func (r *Runtime) grouped(name string) bool {
	ids, err := r.roster.List()
	if err != nil {
		return true
	}
	for _, id := range ids {
		var rec record
		if r.roster.Read(id, &rec) == nil && len(rec.Cgroup) > 0 && filepath.Base(rec.Cgroup[0].Path) == name {
			return true
		}
	}
	return false
}

// at tells a test how far a claim is.
func (r *Runtime) at(point string) {
	if r.reached != nil {
		r.reached(point)
	}
}
