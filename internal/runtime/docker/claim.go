package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptrace"
	"reflect"
	"slices"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Blank implements [runtime.Claimer]. An engine can change the limits of a container, but takes too long for a program that waits.
// So limits are settled at birth, and sandboxes with other limits are of another kind.
func (r *Runtime) Blank(spec runtime.Spec) runtime.Spec {
	l := spec.Limits
	spec.ID, spec.Lease, spec.Root.Env = "", 0, nil
	spec.Limits = belljar.Limits{
		CPU: l.CPU, MemoryMB: l.MemoryMB, Pids: l.Pids, NProc: min(l.Pids, l.NProc), NoFile: max(l.NoFile, agentFiles),
		TmpMB: l.TmpMB, Inodes: l.Inodes,
	}
	spec.Require = slices.Compact(slices.Sorted(slices.Values(spec.Require)))
	return spec
}

// Claim implements [runtime.Claimer]. Only the container's name changes, by which it is found.
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

// claim gives the sandbox from to the caller of spec. had is false if another caller had claimed it.
func (s *sandbox) claim(ctx context.Context, from string, spec runtime.Spec) (had bool, err error) {
	r := s.rt
	ctx, over, err := r.begin(ctx, spec.ID)
	if err != nil {
		return s.ID() == from, err
	}
	defer over()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != from {
		return false, runtime.ErrNotFound
	}
	f := r.engine.last()
	if f == nil {
		return true, errors.New("the engine is away")
	}
	if err := r.engine.check(spec, f); err != nil {
		return true, err
	}
	born := s.born
	born.ID, born.Lease = "", 0
	if !reflect.DeepEqual(r.Blank(spec), born) {
		return true, errors.New("it was made for something else")
	}
	select {
	case <-s.Gone():
		return true, runtime.ErrGone
	default:
	}
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	if err := r.rename(ctx, s, spec.ID); err != nil {
		return true, err
	}
	s.id, s.born = spec.ID, runtime.Spec{}
	r.mu.Lock()
	delete(r.living, from)
	r.living[spec.ID] = s
	r.mu.Unlock()
	select {
	case <-s.Gone():
		return true, runtime.ErrGone
	default:
	}
	return true, context.Cause(ctx)
}

// rename renames a sandbox's container, and returns as soon as the engine has received the request. The engine answers only after
// it has stored the name, which takes longer than all the rest. It completes the rename even if this process ends. A caller that
// looks for containers by name waits for the answer ([Runtime.settled]). If the rename fails, the sandbox is removed, because it
// could not be found again.
func (r *Runtime) rename(ctx context.Context, s *sandbox, id string) error {
	claimed, over := make(chan struct{}), make(chan struct{})
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.engine.opts.Patience)
	var once sync.Once
	patient = httptrace.WithClientTrace(patient, &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) {
		if w.Err == nil {
			once.Do(func() { close(claimed) })
		}
	}})
	r.mu.Lock()
	r.renames[over] = true
	r.mu.Unlock()
	failed := make(chan error, 1)
	go func() {
		defer cancel()
		_, err := r.engine.api().ContainerRename(patient, s.container, client.ContainerRenameOptions{NewName: r.engine.container(id)})
		r.mu.Lock()
		delete(r.renames, over)
		r.mu.Unlock()
		if err != nil {
			failed <- renameError(id, err)
			if !cerrdefs.IsNotFound(err) {
				r.engine.log.Error("a claimed sandbox cannot be named", "sandbox", id, "error", err)
				r.engine.removeQuietly(patient, s.container)
			}
		}
		close(over)
	}()
	select {
	case <-claimed:
	case <-over:
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func renameError(id string, err error) error {
	switch {
	case cerrdefs.IsConflict(err):
		return exists(id)
	case cerrdefs.IsNotFound(err):
		return runtime.ErrGone
	}
	return fault(stepState, err)
}

// settled waits until all pending renames are done.
func (r *Runtime) settled(ctx context.Context) error {
	r.mu.Lock()
	pending := slices.Collect(maps.Keys(r.renames))
	r.mu.Unlock()
	for _, over := range pending {
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
