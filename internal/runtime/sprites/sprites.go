package sprites

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/upstream"
)

// Name is this runtime's name in requests.
const Name = "sprites"

// Options name the sprite and the places in it. API, Service, Sprite, Agent and Workspace are required.
type Options struct {
	API     *upstream.Guard // with [Rules]
	Service upstream.CheckOptions
	Sprite  string // its name
	Agent   string // path of the program belljar-agent in the sprite
	// Workspace is the folder of files in the sprite, Secrets the folder of secrets; "" is none.
	Workspace, Secrets string
	// State is a folder of this machine for the records that find detached sandboxes again; "" without detached ones.
	State string
	// Patience is how long the runtime tries to restore a lost connection; 0 is 2 min.
	Patience time.Duration
	// Observe receives events of sessions, for metrics: attach_failed, with the reason, and disconnected. nil ignores them.
	Observe func(what string, why upstream.Reason)
	Logger  *slog.Logger // nil discards
}

// Runtime implements [runtime.Runtime].
type Runtime struct {
	opts    Options
	check   *upstream.Check // of the workspace service and the API
	log     *slog.Logger
	closing chan struct{}
	once    sync.Once
	watches sync.WaitGroup

	mu    sync.Mutex
	boxes map[string]*sandbox // living ones, and those being made (nil)
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Tester  = (*Runtime)(nil)
)

// New returns a runtime. It connects to nothing.
func New(o Options) (*Runtime, error) {
	if o.API == nil || o.Service.Guard == nil || o.Sprite == "" || o.Agent == "" || o.Workspace == "" {
		return nil, errors.New("the sprite is not configured")
	}
	o.Patience = cmp.Or(o.Patience, 2*time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Observe == nil {
		o.Observe = func(string, upstream.Reason) {}
	}
	r := &Runtime{opts: o, log: o.Logger, closing: make(chan struct{}), boxes: map[string]*sandbox{}}
	o.Service.Also = func(ctx context.Context) error { // the API checks the token and the sprite
		_, err := r.living(ctx, "")
		return err
	}
	r.check = upstream.NewCheck(o.Service)
	r.tidy()
	return r, nil
}

// Close ends the connections. Sandboxes of [runtime.LifetimeCreator] end too, detached ones live on.
func (r *Runtime) Close() error {
	r.once.Do(func() { close(r.closing) })
	r.watches.Wait()
	r.opts.API.Close()
	r.opts.Service.Guard.Close()
	return nil
}

// Name implements [runtime.Runtime].
func (r *Runtime) Name() string { return Name }

// Ready returns why the sprite cannot be used; nil if it can. The answer is at most a minute old.
func (r *Runtime) Ready(ctx context.Context) error { return r.check.Ready(ctx) }

// Circuit is the state of the breakers, the worse of the API's and the workspace service's: closed, half-open or open.
func (r *Runtime) Circuit() string {
	api, service := r.opts.API.Circuit(), r.opts.Service.Guard.Circuit()
	if api == upstream.Open || service == upstream.Closed {
		return api
	}
	return service
}

// Probe implements [runtime.Runtime]. Its answer is as old as Ready's.
func (r *Runtime) Probe(ctx context.Context) (runtime.Capabilities, error) {
	c := capabilities()
	if err := r.Ready(ctx); err != nil {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		c.Refuse(runtime.Reason{
			Code: "host_prerequisite_missing", Step: stepService, Detail: "the sprite or its workspace service: " + err.Error(), Hint: hint(err),
		})
	}
	return c, nil
}

// Test implements [runtime.Tester].
func (r *Runtime) Test(ctx context.Context) (runtime.Capabilities, error) {
	caps, err := r.Probe(ctx)
	if err != nil || !caps.Available {
		return caps, err
	}
	return runtime.TestSandbox(ctx, r, caps)
}

// capabilities returns the capabilities of a sprite. This machine is protected from programs because they run on another.
func capabilities() runtime.Capabilities {
	const machine = "a virtual machine that is not on this host"
	c := runtime.Capabilities{
		Available: true, State: runtime.StateSupported, Isolation: runtime.IsolationRemote, OOMScope: "sandbox", AgentUID: "shared",
		HostImage: true, Start: 2 * time.Second,
		Protections: []runtime.Protection{
			{Name: runtime.ProtectFilesystem, Enforced: true, By: machine},
			{Name: runtime.ProtectSeccomp, Enforced: true, By: machine + ", with a kernel of its own"},
			{Name: runtime.ProtectIdentity, Enforced: true, By: machine},
			runtime.WallTime(),
			{Name: runtime.ProtectCPUTime, Enforced: true, By: "the clocks of the command's processes, read by the agent"},
		},
	}
	for _, name := range []string{runtime.ProtectNetwork, runtime.ProtectPids, runtime.ProtectMemory, runtime.ProtectCPU, runtime.ProtectDisk, runtime.ProtectLandlock} {
		c.Protections = append(c.Protections, runtime.Protection{
			Name: name, Hint: "a sprite has the resources and the network of its whole machine; accept that with SANDBOX_ALLOW_WEAK",
		})
	}
	return c
}

// Steps of a [runtime.StepError].
const (
	stepService = "workspace_service"
	stepSprite  = "sprite"
	stepExec    = "exec"
	stepAgent   = "agent"
)

// fault makes an error of the sprite a [runtime.StepError].
func fault(step string, err error) error {
	if err == nil {
		return nil
	}
	return &runtime.StepError{Step: step, Err: err, Hint: hint(err)}
}

func hint(err error) string {
	var f *upstream.Failure
	if errors.As(err, &f) {
		return f.Hint()
	}
	return ""
}

// errClosed means that the runtime was closed.
var errClosed = errors.New("the runtime is closed")

// Create implements [runtime.Runtime].
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (_ runtime.Sandbox, err error) {
	caps, err := r.Probe(ctx)
	if err != nil {
		return nil, err
	}
	if err := spec.Check(caps); err != nil {
		return nil, err
	}
	if spec.Root.Ref != runtime.HostRef || spec.Root.Dir != "" {
		return nil, &runtime.StepError{Step: "image", Err: errors.New("a sprite has its own programs and no images"), Hint: "use the image host"}
	}
	if spec.Lifetime == runtime.LifetimeDetached && r.opts.State == "" {
		return nil, &runtime.StepError{Step: stepSprite, Err: errors.New("there is no folder for the record of a sandbox")}
	}
	if err := r.reserve(spec.ID); err != nil {
		return nil, err
	}
	detached := spec.Lifetime == runtime.LifetimeDetached
	var l *line
	defer func() {
		if err != nil {
			if l != nil {
				r.end(l)
			}
			err = errors.Join(err, r.erase(spec.ID))
			r.drop(spec.ID)
			r.opts.Observe("attach_failed", upstream.ReasonOf(err))
		}
	}()
	if detached {
		if err := r.note(spec.ID, record{}); err != nil {
			return nil, fault(stepSprite, err)
		}
	}
	if l, err = r.launch(ctx, spec); err != nil {
		return nil, fault(stepExec, err)
	}
	host := wire.NewMuxHost(l) // it reads, so that the session's name arrives
	if err := r.greet(ctx, host, l); err != nil {
		host.Close()
		return nil, err
	}
	if l.id() == "" { // the name comes before the agent's first output
		host.Close()
		return nil, fault(stepExec, errors.New("the sprite does not name the session"))
	}
	if detached {
		if err := r.note(spec.ID, record{Session: l.id()}); err != nil {
			host.Close()
			return nil, fault(stepSprite, err)
		}
	}
	return r.watch(spec.ID, l, host, detached)
}

// reserve reserves the sprite for a sandbox.
func (r *Runtime) reserve(id string) error {
	known, err := r.recorded()
	if err != nil {
		return fault(stepSprite, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.closing:
		return errClosed
	default:
	}
	if len(r.boxes) > 0 || len(known) > 0 {
		return &runtime.StepError{Step: stepSprite, Err: fmt.Errorf("another session has the sprite: %w", runtime.ErrFull), Hint: "close that session first"}
	}
	r.boxes[id] = nil
	return nil
}

func (r *Runtime) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.boxes, id)
}

func (r *Runtime) find(id string) *sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.boxes[id]
}

// greet waits until the agent answers.
func (r *Runtime) greet(ctx context.Context, host *wire.MuxHost, l *line) error {
	ctx, cancel := context.WithTimeout(ctx, wake)
	defer cancel()
	conn, err := host.Dial(ctx)
	if err == nil {
		return conn.Close()
	}
	if status := l.status(); status != nil {
		r.log.Error("the agent in the sprite ended at once", "status", *status, "stderr", l.stderr())
		return &runtime.StepError{
			Step: stepAgent, Err: fmt.Errorf("the agent ended with status %d", *status),
			Hint: "deploy it again with deploy/sandbox/deploy_workspace_service.sh; the server's log has its last words",
		}
	}
	if ctx.Err() != nil {
		return fault(stepAgent, fmt.Errorf("the agent does not answer: %w", context.Cause(ctx)))
	}
	return fault(stepAgent, errors.Join(errors.New("the agent does not answer"), io.ErrUnexpectedEOF))
}

// end ends a session over its line, or else by the API.
func (r *Runtime) end(l *line) {
	l.Close()
	session := l.id()
	if session == "" || l.status() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if err := r.kill(ctx, session); err != nil {
		r.log.Warn("a session in the sprite may be left; its lease ends it", "err", err)
	}
}

// Attach implements [runtime.Runtime].
func (r *Runtime) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	if s := r.find(id); s != nil {
		return s, nil
	}
	rec, err := r.noted(id)
	if err != nil {
		return nil, err
	}
	if rec.Session == "" {
		return nil, runtime.ErrNotFound
	}
	r.mu.Lock()
	if _, busy := r.boxes[id]; busy {
		r.mu.Unlock()
		return nil, fault(stepSprite, errors.New("it is being attached to"))
	}
	r.boxes[id] = nil
	r.mu.Unlock()
	l, err := r.join(ctx, rec.Session, id)
	if err == nil {
		host := wire.NewMuxHost(l)
		if err = r.greet(ctx, host, l); err == nil {
			return r.watch(id, l, host, true)
		}
		host.Close()
	}
	r.drop(id)
	r.opts.Observe("attach_failed", upstream.ReasonOf(err))
	if there, e := r.living(ctx, rec.Session); e == nil && !there {
		return nil, runtime.ErrNotFound
	}
	return nil, fault(stepExec, err)
}

// List implements [runtime.Runtime].
func (r *Runtime) List(context.Context) ([]string, error) {
	ids, err := r.recorded()
	r.mu.Lock()
	defer r.mu.Unlock()
	ids = append(ids, slices.Collect(maps.Keys(r.boxes))...)
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// Remove implements [runtime.Runtime].
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if s := r.find(id); s != nil {
		return s.Destroy(ctx)
	}
	rec, err := r.noted(id)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err == nil && rec.Session != "" {
		s, err := r.Attach(ctx, id) // so that its programs end as well
		if err == nil {
			return s.Destroy(ctx)
		}
		if err := r.kill(ctx, rec.Session); err != nil {
			return fault(stepExec, err)
		}
	}
	return r.erase(id)
}
