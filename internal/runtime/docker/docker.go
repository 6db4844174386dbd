package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Name is the runtime's name in requests.
const Name = "docker"

// Options configure a runtime. Agent is required.
type Options struct {
	// Host is the engine's address: unix:///path, npipe:////./pipe/name or tcp://host:port. "" is the address in the
	// environment (DOCKER_HOST), or else the usual socket of engines. The TLS settings always come from the environment:
	// DOCKER_CERT_PATH, DOCKER_TLS_VERIFY.
	Host string
	// OCIRuntime is the program that the engine uses for isolation, by its name in the engine: runc, runsc, kata … "" is the
	// engine's default.
	OCIRuntime string
	// Seccomp is a file with a seccomp profile in Docker's form; "" is Belljar's own.
	Seccomp string
	// AppArmor is the name of an AppArmor profile that is loaded on the engine's machine; "" is the engine's default.
	AppArmor string
	// CgroupParent is the parent cgroup of the containers; "" is the engine's default.
	CgroupParent string
	// Agent opens the program that becomes PID 1 of every sandbox, for an architecture by Go's name (amd64, arm64).
	Agent func(arch string) (io.ReadCloser, error)
	// Installation keeps sandboxes of different daemons apart; [belljar.ValidID]. Default cli.
	Installation string
	// Keychain has the credentials for registries; nil is Docker's own: ~/.docker/config.json and its helpers.
	Keychain authn.Keychain
	// Patience is how long an engine may be unreachable before its sandboxes count as lost. Default 30 seconds.
	Patience time.Duration
	// Logger logs errors that cannot be returned; nil discards.
	Logger *slog.Logger
}

// Runtime builds sandboxes. It implements [runtime.Runtime].
type Runtime struct {
	engine *engine
	*images
	volumes   *volumes
	closeOnce sync.Once

	mu     sync.Mutex // guards the fields below
	living map[string]*sandbox
	births map[string]*birth
	// attaching has the sandboxes that are being attached to. A channel is closed when the attempt is over.
	attaching map[string]chan struct{}
	renames   map[chan struct{}]bool // pending renames; each is closed when it is over
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Tester  = (*Runtime)(nil)
	_ runtime.Claimer = (*Runtime)(nil)
	_ runtime.Imager  = (*Runtime)(nil)
)

// New prepares a runtime and sends nothing to the engine. Probe reports an unusable address, since it may come from the
// environment and not be meant for Belljar. The caller must close the runtime.
func New(o Options) (*Runtime, error) {
	if o.Agent == nil {
		return nil, errors.New("docker: no agent")
	}
	o.Installation = cmp.Or(o.Installation, "cli")
	if !belljar.ValidID(o.Installation) {
		return nil, fmt.Errorf("installation %q is not a valid name", o.Installation)
	}
	if o.Patience <= 0 {
		o.Patience = 30 * time.Second
	}
	if o.Keychain == nil {
		o.Keychain = authn.DefaultKeychain
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	e, err := newEngine(o)
	if err != nil {
		return nil, err
	}
	return &Runtime{
		engine: e, images: &images{engine: e, byID: map[string]image{}, importing: make(chan struct{}, mostImports)},
		volumes: &volumes{engine: e, filling: make(chan struct{}, 1), filled: map[string]bool{}},
		living:  map[string]*sandbox{}, births: map[string]*birth{}, renames: map[chan struct{}]bool{}, attaching: map[string]chan struct{}{},
	}, nil
}

// Close disconnects from the engine. Sandboxes of this process's lifetime end; detached ones continue. It may be called twice.
func (r *Runtime) Close() error {
	r.closeOnce.Do(func() { close(r.engine.closing) })
	r.engine.watches.Wait()
	return errors.Join(r.settled(context.Background()), r.engine.api().Close())
}

// Name implements [runtime.Runtime].
func (r *Runtime) Name() string { return Name }

// errClosed means that the runtime has been closed.
var errClosed = errors.New("the docker runtime is closed")

// errRemoved ends a Create whose sandbox is removed meanwhile.
var errRemoved = errors.New("the sandbox was removed while it was made")

// birth is a Create in progress.
type birth struct {
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when it has ended and, if it failed, left nothing
}

// begin registers a Create, so that [Runtime.Remove] can cancel it. over ends the registration.
func (r *Runtime) begin(ctx context.Context, id string) (_ context.Context, over func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &birth{cancel: cancel, over: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.births[id] != nil || r.living[id] != nil {
		cancel(nil)
		return nil, nil, exists(id)
	}
	r.births[id] = b
	return ctx, func() {
		r.mu.Lock()
		delete(r.births, id)
		r.mu.Unlock()
		cancel(nil)
		close(b.over)
	}, nil
}

// cancelCreate cancels a Create of id in this process and waits for its end.
func (r *Runtime) cancelCreate(ctx context.Context, id string) error {
	r.mu.Lock()
	b := r.births[id]
	r.mu.Unlock()
	if b == nil {
		return nil
	}
	b.cancel(errRemoved)
	select {
	case <-b.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Runtime) remember(s *sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.living[s.id] = s
}

func (r *Runtime) drop(s *sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, other := range r.living {
		if other == s {
			delete(r.living, id)
		}
	}
}
