package docker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/belljar/belljar/internal/runtime"
)

// engine is the connection to a Docker engine, with the facts that the engine reports.
type engine struct {
	opts     Options
	host     string
	unusable error  // why the address cannot be used; nil if it can
	seccomp  string // the profile, in the engine's format
	log      *slog.Logger

	closing chan struct{}  // closed when the runtime's Close begins
	watches sync.WaitGroup // waits for goroutines that use the engine

	mu     sync.Mutex // guards the fields below
	client *client.Client
	facts  *facts // nil until the engine was queried
	asking bool   // a goroutine is refreshing the facts

	mostFiles int64 // that the engine can permit a sandbox, as far as it is known; 0 if no sandbox has failed for it
}

// newEngine prepares a connection. It sends nothing yet.
func newEngine(o Options) (*engine, error) {
	e := &engine{opts: o, log: o.Logger, closing: make(chan struct{})}
	var err error
	if e.seccomp, err = seccompProfile(o.Seccomp); err != nil {
		return nil, &runtime.StepError{Step: stepSeccomp, Err: err, Hint: "SANDBOX_DOCKER_SECCOMP names a profile in Docker's form; leave it out for Belljar's own"}
	}
	if e.client, e.host, e.unusable = connect(o.Host); e.unusable != nil {
		if e.client, err = nowhere(e.unusable); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// api returns the client of the engine.
func (e *engine) api() *client.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.client
}

// ping queries whether the engine answers. A client keeps the API version that it has negotiated, which an engine of another version,
// installed in the meantime, may refuse. So that engine gets a new client, and its facts are queried again.
func (e *engine) ping(ctx context.Context) (client.PingResult, error) {
	old := e.api()
	got, err := old.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil || old.ClientVersion() == spoken(got.APIVersion) {
		return got, err
	}
	api, _, err := connect(e.host)
	if err != nil {
		return got, err
	}
	if got, err = api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return got, errors.Join(err, api.Close())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client != old { // another caller was faster
		return got, api.Close()
	}
	e.client, e.facts = api, nil
	return got, old.Close() // of idle connections: requests in progress end by themselves
}

// spoken returns the API version that a client and an engine of a version agree on.
func spoken(version string) string {
	if version == "" || versions.GreaterThan(version, client.MaxAPIVersion) {
		return client.MaxAPIVersion
	}
	return version
}

// closed reports whether Close has begun.
func (e *engine) closed() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// container is the name of a sandbox's container.
func (e *engine) container(id string) string { return e.prefix() + id }

func (e *engine) prefix() string { return "belljar-" + e.opts.Installation + "-" }

// local reports whether the engine may be on this machine, so that its containers may be processes that we can inspect.
func (e *engine) local() bool { return strings.HasPrefix(e.host, "unix://") }

// destroy removes a container, alive or not, and returns when it is gone. It waits for an engine that is away.
func (e *engine) destroy(ctx context.Context, container string) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Patience)
	defer cancel()
	for pause := shortest; ; pause = min(2*pause, longest) {
		err := e.remove(ctx, container)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fault(stepEngine, err)
		case cerrdefs.IsConflict(err): // another caller removes it
		case !unreachable(err):
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fault(stepEngine, err)
		}
	}
}

// remove sends one request to remove a container, which may be gone.
func (e *engine) remove(ctx context.Context, container string) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Patience)
	defer cancel()
	_, err := e.api().ContainerRemove(ctx, container, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// removeQuietly removes a container of a failed creation and ignores errors.
func (e *engine) removeQuietly(ctx context.Context, id string) {
	if err := e.remove(context.WithoutCancel(ctx), id); err != nil {
		e.log.Warn("a container is left on the docker engine", "container", id, "error", err)
	}
}

// Pauses between the queries of an engine that does not answer.
const (
	shortest = 10 * time.Millisecond
	longest  = time.Second
)
