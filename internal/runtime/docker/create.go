package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// Create implements [runtime.Runtime].
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	if r.engine.closed() {
		return nil, errClosed
	}
	f, err := r.engine.ask(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == r.engine.unusable {
			return nil, err
		}
		return nil, &runtime.StepError{Step: stepEngine, Err: err, Hint: r.engine.whyNot(err).Hint}
	}
	if err := r.engine.check(spec, f); err != nil {
		return nil, err
	}
	ctx, over, err := r.begin(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer over()
	s, err := r.make(ctx, spec, f)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("make sandbox %s: %w", spec.ID, errors.Join(context.Cause(ctx), err))
		}
		return nil, err
	}
	return s, nil
}

// make builds a sandbox. It tries twice if the engine no longer has something that was cached as present: an image that
// was removed, or an agent's volume that is empty. So it does if the connection to the engine breaks.
func (r *Runtime) make(ctx context.Context, spec runtime.Spec, f *facts) (*sandbox, error) {
	refill, cause := false, error(nil)
	for again := false; ; again = true {
		img, err := r.rootOf(ctx, spec.Root, f)
		if err != nil {
			return nil, err
		}
		volume, err := r.volumes.ensure(ctx, f.arch(), img, refill)
		if err != nil {
			return nil, err
		}
		p, err := r.engine.plan(spec, f, img, volume)
		if err != nil {
			return nil, err
		}
		p.dropped = cause
		s, err := r.build(ctx, spec, f, p)
		for r.engine.fewerFiles(err, p, spec.Limits) {
			if p, err = r.engine.plan(spec, f, img, volume); err != nil {
				return nil, err
			}
			p.dropped = cause
			s, err = r.build(ctx, spec, f, p)
		}
		refill = errors.Is(err, errNoAgent)
		dropped := err != nil && unreachable(err) && ctx.Err() == nil
		if again || !refill && !dropped && !errors.Is(err, runtime.ErrNoImage) {
			return s, err
		}
		if dropped {
			cause = err
		}
		r.forget(img.id)
	}
}

// errNoAgent means that the agent's volume has no agent in it.
var errNoAgent = errors.New("the agent is not where it should be")

// build makes a container, compares it with the request, and starts it.
func (r *Runtime) build(ctx context.Context, spec runtime.Spec, f *facts, p *plan) (_ *sandbox, err error) {
	id, err := r.engine.create(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.engine.removeQuietly(ctx, id)
		}
	}()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	got, err := r.engine.api().ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, fault(stepVerify, err)
	}
	if missing := differences(p, got.Container, f); len(missing) > 0 {
		return nil, &runtime.StepError{
			Step: stepVerify, Err: fmt.Errorf("the engine did not apply the request: %s", strings.Join(missing, "; ")),
			Hint: "this engine cannot keep a sandbox; docker info shows what it lacks",
		}
	}
	s := r.sandbox(spec.ID, id, spec.Lifetime == runtime.LifetimeDetached, min(spec.Limits.Pids, spec.Limits.NProc))
	s.memory, s.memoryMB = p.host.Memory, spec.Limits.MemoryMB
	s.born, s.kernel = spec, ownKernel(f.isolation(p.host.Runtime))
	// Attach before the start: an agent's output without a reader is lost.
	host, err := r.engine.attach(ctx, id, &s.stderr)
	if err != nil {
		return nil, fault(stepAttach, err)
	}
	defer func() {
		if err != nil {
			host.Close()
		}
	}()
	if _, err := r.engine.api().ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		text := err.Error()
		if strings.Contains(text, agentName) && (strings.Contains(text, "no such file") || strings.Contains(text, "not found")) {
			return nil, errors.Join(errNoAgent, fault(stepStart, err))
		}
		return nil, fault(stepStart, err)
	}
	if err := r.greet(ctx, host, s); err != nil {
		return nil, err
	}
	r.watch(s, host)
	return s, nil
}

// create makes the container. It waits for the engine's answer even if the caller cancels, because some engines then
// continue and others do not. After a connection that broke, it removes what the engine has made or still makes.
func (e *engine) create(ctx context.Context, p *plan) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.opts.Patience)
	defer cancel()
	request := client.ContainerCreateOptions{Name: p.name, Config: p.config, HostConfig: p.host}
	made, err := e.api().ContainerCreate(patient, request)
	for pause := shortest; p.dropped != nil && cerrdefs.IsConflict(err); pause = min(2*pause, longest) {
		e.removeQuietly(ctx, p.name)
		select {
		case <-time.After(pause):
		case <-patient.Done():
			return "", p.dropped
		}
		made, err = e.api().ContainerCreate(patient, request)
	}
	switch {
	case err == nil && made.ID == "":
		err = errors.New("the engine does not say what it has made")
	case err != nil && patient.Err() != nil:
		err = &runtime.StepError{Step: stepEngine, Err: errMute, Hint: hintMute}
	}
	switch {
	case err == nil:
		for _, w := range made.Warnings {
			e.log.Debug("the docker engine warns", "container", p.name, "warning", w)
		}
		return made.ID, nil
	case cerrdefs.IsConflict(err):
		return "", exists(strings.TrimPrefix(p.name, e.prefix()))
	case cerrdefs.IsNotFound(err) && strings.Contains(err.Error(), "image"):
		return "", fmt.Errorf("%w: %w", runtime.ErrNoImage, err)
	}
	e.removeQuietly(ctx, p.name) // the engine may have made it nevertheless
	return "", fault(stepCreate, err)
}

// greet waits until the agent answers.
func (r *Runtime) greet(ctx context.Context, host *wire.MuxHost, s *sandbox) error {
	conn, err := host.Dial(ctx)
	if err == nil {
		return conn.Close()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	exit, lookErr := s.look(ctx)
	if exit != nil {
		err = fmt.Errorf("the agent ended: %s", exit.Detail)
	}
	return fault(stepAgent, errors.Join(err, lookErr))
}

// List implements [runtime.Runtime].
func (r *Runtime) List(ctx context.Context) ([]string, error) {
	if err := r.settled(ctx); err != nil {
		return nil, err
	}
	got, err := r.engine.api().ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", labelInstallation+"="+r.engine.opts.Installation),
	})
	if err != nil {
		return nil, fault(stepEngine, err)
	}
	var ids []string
	for _, item := range got.Items {
		for _, name := range item.Names {
			if id, ok := strings.CutPrefix(strings.TrimPrefix(name, "/"), r.engine.prefix()); ok {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}
