package box

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// Images pulls images that are not local when a request is admitted.
type Images interface {
	// Fetchable returns an error if a request may not pull this image.
	Fetchable(ref string) error
	// Fetch pulls the image of a placement.
	Fetch(ctx context.Context, caller belljar.Caller, p *placement.Placement) (runtime.Root, error)
}

// Disks opens the workspaces on disk that sandboxes have claimed.
type Disks interface {
	// Open completes the workspace of a sandbox that is about to be made. Call made when the sandbox exists, or could not be made.
	Open(id string, w *runtime.Workspace) (made func(), err error)
}

// Maker makes and removes sandboxes.
type Maker struct {
	Lifetime  runtime.Lifetime
	Lease     time.Duration
	Images    Images
	Hosts     placement.Hosts
	Work      func(f func()) // runs f in a goroutine that the service waits for
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
	Egress    Egress
	Disks     Disks // nil has none
	Log       *slog.Logger

	places    egress.Places // of the connections of all sandboxes
	sides     sync.Map      // the ids of side sandboxes in use
	unwinding sync.Map      // the ids of sandboxes whose cancelled creation has not ended, each with a channel that is closed then
}

// Order is an order to make one sandbox, or to connect to one.
type Order struct {
	ID        string
	Caller    belljar.Caller
	Placement *placement.Placement
	OnImage   func(runtime.Root)    // receives the image, if that was pulled
	Made      func(runtime.Sandbox) // receives the sandbox as soon as it exists
	Egress    func(egress.Event)    // receives the gate's events unless exactly one run watches; may be nil
}

// Make makes a sandbox, connects to its agent and prepares its workspace. Its network may still be opening; [Box.Exec] waits for that.
// The box is returned even with an error, if there is a sandbox.
func (m *Maker) Make(ctx context.Context, o Order) (*Box, error) {
	sandbox, err := m.sandbox(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Made(sandbox)
	b, err := Connect(ctx, sandbox, o.Placement.Caps, o.Placement.Image)
	b.Network = m.network(b, o)
	if err == nil && o.Placement.State != "" {
		err = b.Agent.Lease(ctx, m.Lease)
	}
	if err == nil && o.Placement.Broker != nil {
		err = b.trust(ctx, o.Placement.Broker.Egress.Authority)
	}
	if err == nil && o.Placement.Egress != nil {
		b.Network.Begin(o.Placement.Egress) // commands wait for it
	}
	if err == nil && o.Placement.TmpInWorkspace() {
		err = b.PrepareWorkspace(ctx)
	}
	if err == nil {
		err = b.Upload(ctx, nil, o.Placement.Files)
	}
	return b, err
}

// tries is how often the image of one sandbox is looked up: other callers may remove unused images meanwhile.
const tries = 3

// sandbox makes the sandbox of a placement, after pulling its image if necessary.
func (m *Maker) sandbox(ctx context.Context, o Order) (runtime.Sandbox, error) {
	p := o.Placement
	for n := 1; ; n++ {
		if p.Fetch != "" {
			root, err := m.fetch(ctx, o.Caller, p)
			if err != nil {
				return nil, err
			}
			root.Layers = p.Image.Layers
			o.OnImage(root)
		}
		sandbox, err := m.create(ctx, o.ID, p)
		if !errors.Is(err, runtime.ErrNoImage) {
			return sandbox, err
		}
		if why := m.Images.Fetchable(p.Image.Ref); n == tries || why != nil {
			return nil, &FetchError{&belljar.Error{
				Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("image %q was removed before the sandbox was made", p.Image.Ref),
				Details: map[string]any{"image": p.Image.Ref, "digest": p.Image.Digest},
				Hint:    cmp.Or(belljar.HintOf(why), "make it ready again: belljar image pull or import"),
			}}
		}
		p.Fetch = placement.Pinned(p.Image.Ref, p.Image.Digest)
	}
}

// Fetch pulls the image of a placement before its sandbox is made, if the image is not local.
func (m *Maker) Fetch(ctx context.Context, caller belljar.Caller, p *placement.Placement) error {
	if p.Fetch == "" {
		return nil
	}
	root, err := m.fetch(ctx, caller, p)
	if err == nil {
		p.Image, p.Fetch = root, ""
	}
	return err
}

// fetch pulls the image of a placement that was not local at admission.
func (m *Maker) fetch(ctx context.Context, caller belljar.Caller, p *placement.Placement) (runtime.Root, error) {
	if err := m.Images.Fetchable(p.Fetch); err != nil {
		return runtime.Root{}, &FetchError{err}
	}
	root, err := m.Images.Fetch(ctx, caller, p)
	switch {
	case err == nil:
		return root, nil
	case ctx.Err() != nil:
		return runtime.Root{}, context.Cause(ctx)
	}
	return runtime.Root{}, &FetchError{err}
}

// create makes the sandbox, but does not wait for a runtime that is slow to cancel: a sandbox that it still returns is destroyed later.
// The next creation with the id waits for that, because a runtime refuses an id in use.
func (m *Maker) create(ctx context.Context, id string, p *placement.Placement) (runtime.Sandbox, error) {
	type creation struct {
		sandbox runtime.Sandbox
		err     error
	}
	if gone, unwinds := m.unwinding.Load(id); unwinds {
		select {
		case <-gone.(chan struct{}):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	made := make(chan creation, 1)
	spec, create := p.Spec(id, m.Lifetime), m.builder(p)
	spec.Lease = m.Lease
	go func() {
		sandbox, err := create(ctx, spec)
		made <- creation{sandbox, err}
	}()
	select {
	case c := <-made:
		if c.err != nil && ctx.Err() == nil {
			c.err = p.Host.Explain(ctx, c.err)
		}
		if c.err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return c.sandbox, c.err
	case <-ctx.Done():
		gone := make(chan struct{})
		m.unwinding.Store(id, gone)
		m.Work(func() {
			if c := <-made; c.err == nil {
				m.Destroy(id, c.sandbox)
			}
			m.unwinding.Delete(id)
			close(gone)
		})
		return nil, context.Cause(ctx)
	}
}

// restorer makes a sandbox from a saved state.
func restorer(host *placement.Host, state string) func(context.Context, runtime.Spec) (runtime.Sandbox, error) {
	return func(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
		r, can := runtime.As[runtime.Restorer](host.Runtime)
		if !can {
			return nil, &belljar.Error{
				Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("runtime %s cannot continue the processes of a live snapshot", host.Name()),
				Details: map[string]any{"field": "snapshot", "runtime": host.Name(), "available": true, "suggested": []string{}},
				Hint:    "ask for the runtime that it was made on",
			}
		}
		sandbox, err := r.Restore(ctx, spec, state)
		var step *runtime.StepError
		if errors.As(err, &step) && step.Step == runtime.StepSnapshot && !passing(step.Err) {
			return nil, &belljar.Error{
				Code: belljar.CodeConflict, Message: "the live snapshot cannot become this session: " + step.Err.Error(),
				Details: map[string]any{"field": "snapshot"}, Hint: "ask for the image and the limits of the session that it was made of",
			}
		}
		return sandbox, err
	}
}

// passing reports whether an error is one of the host, after which a retry may succeed. A missing file stays missing.
func passing(err error) bool {
	_, host := errors.AsType[syscall.Errno](err)
	return host && !errors.Is(err, fs.ErrNotExist)
}

// builder makes a sandbox with the placement's runtime.
func (m *Maker) builder(p *placement.Placement) func(context.Context, runtime.Spec) (runtime.Sandbox, error) {
	create, volume := p.Host.Create, p.Workspace.Volume
	if p.State != "" {
		create = restorer(p.Host, p.State)
	}
	if !p.Workspace.OnDisk() {
		return create
	}
	return func(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
		done, err := m.Disks.Open(spec.ID, &spec.Workspace)
		if err != nil {
			return nil, err
		}
		sandbox, err := create(ctx, spec)
		if !errors.Is(err, runtime.ErrNoImage) { // otherwise the next try needs the disk
			done()
		}
		if errors.Is(err, runtime.ErrInUse) {
			err = &belljar.Error{ // without the failed step, whose hint is for a damaged image
				Code: belljar.CodeConflict, Message: fmt.Sprintf("a former sandbox that has not ended writes to volume %q", volume),
				Details: map[string]any{"volume": volume}, Hint: "try again later", Err: runtime.ErrInUse,
			}
		}
		return sandbox, err
	}
}

// Destroy destroys a sandbox.
func (m *Maker) Destroy(id string, sandbox runtime.Sandbox) {
	if err := sandbox.Destroy(context.Background()); err != nil {
		for _, h := range m.Hosts { // one of them has it, and its reaper will find it
			h.Orphans.Suspect()
		}
		m.Log.Error("sandbox could not be destroyed", "run_id", id, "err", err)
	}
}

// Reattach connects to a sandbox that a previous process made.
func (m *Maker) Reattach(ctx context.Context, o Order) (*Box, error) {
	p := o.Placement
	sandbox, err := p.Host.Attach(ctx, o.ID)
	if err != nil {
		return nil, err
	}
	b, err := Connect(ctx, sandbox, p.Caps, p.Image)
	if err == nil {
		m.Open(ctx, b, o)
	}
	return b, err
}

// Open opens the network for the sandbox of a previous process. It retries a relay that cannot be opened yet.
func (m *Maker) Open(ctx context.Context, b *Box, o Order) {
	b.Network = m.network(b, o)
	if o.Placement.Egress == nil {
		return
	}
	if err := b.Network.Set(ctx, o.Placement.Egress); err != nil {
		m.Log.Error("relay of a sandbox of a former process cannot be opened", "sandbox_id", o.ID, "err", err)
	}
}

// removeTime is how long a start waits for the removal of one sandbox of a previous process.
const removeTime = 5 * time.Second

// errRemoveTime means that the removal of a sandbox takes too long.
var errRemoveTime = fmt.Errorf("it has not ended after %v", removeTime)

// Remove removes the sandbox of a previous process. A sandbox whose removal hangs, for example on a process stuck in the kernel, does
// not delay the start: it is logged, and the reaper retries.
func (m *Maker) Remove(ctx context.Context, host, id string) {
	h := m.Hosts.Named(host)
	if h == nil {
		return
	}
	late, tooLate := context.WithCancelCause(ctx)
	defer tooLate(nil)
	defer m.AfterFunc(removeTime, func() { tooLate(errRemoveTime) })()
	removed := make(chan error, 1)
	go func() { removed <- h.Remove(late, id) }()
	var err error
	select {
	case err = <-removed:
	case <-late.Done():
		err = context.Cause(late)
	}
	if err != nil {
		h.Orphans.Suspect()
		m.Log.Error("sandbox of a former process could not be removed", "sandbox_id", id, "err", err)
	}
}
