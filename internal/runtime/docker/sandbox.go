package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// sandbox is one living sandbox. It implements [runtime.Sandbox].
type sandbox struct {
	*runtime.Link
	rt        *Runtime
	container string // the engine's id of the container
	detached  bool
	pids      int          // limit of processes of its programs
	memory    int64        // of everything in it, as created; 0 if attached
	memoryMB  int          // of its programs, as created
	kernel    bool         // it has a kernel of its own, whose threads the engine's host counts as processes
	born      runtime.Spec // the spec it was created for; zero if attached or claimed
	stderr    tail
	meter     meter

	removed chan struct{} // closed once Destroy has removed its container
	once    sync.Once

	mu        sync.Mutex // guards the fields below
	id        string     // changes when it is claimed
	destroyed bool       // Destroy was called
}

var (
	_ runtime.Sandbox       = (*sandbox)(nil)
	_ runtime.Pauser        = (*sandbox)(nil)
	_ runtime.MemoryLimiter = (*sandbox)(nil)
)

func (r *Runtime) sandbox(id, container string, detached bool, pids int) *sandbox {
	return &sandbox{
		Link: runtime.NewLink(errClosed, errAway), rt: r, id: id, container: container, detached: detached, pids: pids, removed: make(chan struct{}),
	}
}

// ID implements [runtime.Sandbox].
func (s *sandbox) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// errAway means that the engine did not come back in time.
var errAway = &runtime.StepError{
	Step: stepEngine, Err: errors.New("the connection to the engine is lost, and not restored yet"), Hint: "start the engine again, or wait until it answers",
}

// Destroy implements [runtime.Sandbox].
func (s *sandbox) Destroy(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s.mu.Lock()
	s.destroyed = true
	s.mu.Unlock()
	remove := s.rt.engine.destroy
	if exit := s.Exit(); exit == nil {
		s.meter.remember(ctx, s)
	} else if exit.Reason == runtime.ExitEngineGone {
		remove = s.rt.engine.remove // the wait for its engine is over; its remains are found by name when the engine is back
	}
	if err := remove(ctx, s.container); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", s.ID(), err)
	}
	s.once.Do(func() { close(s.removed) })
	select {
	case <-s.Gone():
	case <-s.Left():
	}
	s.rt.drop(s)
	return nil
}

// LimitMemory implements [runtime.MemoryLimiter]. The engine's limit covers everything in the container.
func (s *sandbox) LimitMemory(ctx context.Context, mb int) error {
	if s.memory == 0 {
		return errors.New("the memory that it was made with is unknown")
	}
	total := s.memory - int64(s.memoryMB-mb)<<20
	_, err := s.rt.engine.api().ContainerUpdate(ctx, s.container, client.ContainerUpdateOptions{
		Resources: &container.Resources{Memory: total, MemorySwap: total},
	})
	if err != nil && memoryHeld(err) {
		return &runtime.StepError{Step: stepState, Err: fmt.Errorf("%w: %w", runtime.ErrMemoryHeld, clip(err))}
	}
	return fault(stepState, err)
}

// Pause implements [runtime.Pauser].
func (s *sandbox) Pause(ctx context.Context) error {
	_, err := s.rt.engine.api().ContainerPause(ctx, s.container, client.ContainerPauseOptions{})
	return s.paused(ctx, true, err)
}

// Resume implements [runtime.Pauser].
func (s *sandbox) Resume(ctx context.Context) error {
	_, err := s.rt.engine.api().ContainerUnpause(ctx, s.container, client.ContainerUnpauseOptions{})
	return s.paused(ctx, false, err)
}

// paused ignores the engine's error if the container is already in the wanted state.
func (s *sandbox) paused(ctx context.Context, want bool, err error) error {
	if err == nil {
		return nil
	}
	got, lookErr := s.rt.engine.api().ContainerInspect(ctx, s.container, client.ContainerInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(lookErr), lookErr == nil && (got.Container.State == nil || !got.Container.State.Running):
		return runtime.ErrGone
	case lookErr == nil && got.Container.State.Paused == want:
		return nil
	}
	return fault(stepEngine, err)
}

// Attach implements [runtime.Runtime].
func (r *Runtime) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	if r.engine.closed() {
		return nil, errClosed
	}
	for {
		r.mu.Lock()
		living, busy := r.living[id], r.attaching[id]
		over := make(chan struct{})
		if living == nil && busy == nil {
			r.attaching[id] = over
		}
		r.mu.Unlock()
		switch {
		case living != nil:
			return living, nil
		case busy == nil:
			defer func() {
				r.mu.Lock()
				delete(r.attaching, id)
				r.mu.Unlock()
				close(over)
			}()
			s, err := r.attachNow(ctx, id)
			if err != nil {
				return nil, err
			}
			return s, nil
		}
		select { // a second connection to an agent would end the first
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// attachNow attaches. There must be only one caller for an id at a time.
func (r *Runtime) attachNow(ctx context.Context, id string) (*sandbox, error) {
	if !belljar.ValidID(id) {
		return nil, runtime.ErrNotFound
	}
	found, err := r.find(ctx, id)
	if err != nil {
		return nil, err
	}
	detached := found.Config.Labels[labelLifetime] == string(runtime.LifetimeDetached)
	if !detached || !found.State.Running {
		return nil, runtime.ErrNotFound
	}
	pids, _ := strconv.Atoi(found.Config.Labels[labelPids])
	s := r.sandbox(id, found.ID, true, pids)
	f, err := r.engine.ask(ctx)
	if err != nil {
		return nil, fault(stepEngine, err)
	}
	s.kernel = found.HostConfig != nil && ownKernel(f.isolation(found.HostConfig.Runtime))
	host, err := r.engine.attach(ctx, found.ID, &s.stderr)
	if err != nil {
		return nil, fault(stepAttach, err)
	}
	if !found.State.Paused {
		if err := r.greet(ctx, host, s); err != nil {
			host.Close()
			if exit, _ := s.look(ctx); exit != nil {
				return nil, runtime.ErrNotFound
			}
			return nil, err
		}
	}
	r.watch(s, host)
	return s, nil
}

// find looks a sandbox's container up by its name. [runtime.ErrNotFound] if there is none of this installation.
func (r *Runtime) find(ctx context.Context, id string) (container.InspectResponse, error) {
	if err := r.settled(ctx); err != nil {
		return container.InspectResponse{}, err
	}
	got, err := r.engine.api().ContainerInspect(ctx, r.engine.container(id), client.ContainerInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err):
		return container.InspectResponse{}, runtime.ErrNotFound
	case err != nil:
		return container.InspectResponse{}, fault(stepEngine, err)
	case got.Container.Config == nil || got.Container.State == nil || got.Container.Config.Labels[labelInstallation] != r.engine.opts.Installation:
		return container.InspectResponse{}, runtime.ErrNotFound
	}
	return got.Container, nil
}

// Remove implements [runtime.Runtime].
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if !belljar.ValidID(id) {
		return fmt.Errorf("%q is not a sandbox id", id)
	}
	if err := r.cancelCreate(ctx, id); err != nil {
		return fmt.Errorf("end the birth of sandbox %s: %w", id, err)
	}
	r.mu.Lock()
	living := r.living[id]
	r.mu.Unlock()
	if living != nil {
		return living.Destroy(ctx)
	}
	found, err := r.find(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.engine.destroy(ctx, found.ID)
}

// Sweep removes the remains of this installation's sandboxes that ended with their creators, and half-made ones whose
// creators must be gone. It returns how many it removed.
func (r *Runtime) Sweep(ctx context.Context) (int, error) {
	ids, err := r.List(ctx)
	if err != nil {
		return 0, err
	}
	swept := 0
	errs := []error{r.volumes.sweepFills(ctx)}
	for _, id := range ids {
		r.mu.Lock()
		ours := r.living[id] != nil || r.births[id] != nil
		r.mu.Unlock()
		if ours {
			continue
		}
		found, err := r.find(ctx, id)
		if err != nil || !abandoned(found) {
			continue
		}
		if err := r.engine.destroy(ctx, found.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		swept++
	}
	return swept, errors.Join(errs...)
}

// halfMade is how long after its creation a container that was never started counts as orphaned.
const halfMade = 5 * time.Minute

// abandoned reports whether a container is orphaned.
func abandoned(c container.InspectResponse) bool {
	switch {
	case c.State.Running || c.State.Restarting:
		return false // a sandbox of the creator's lifetime would have ended
	case c.State.Status == container.StateCreated:
		made, err := time.Parse(time.RFC3339Nano, c.Created)
		return err == nil && time.Since(made) > halfMade
	}
	return c.Config.Labels[labelLifetime] != string(runtime.LifetimeDetached)
}
