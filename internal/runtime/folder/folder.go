//go:build linux

package folder

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/runtime"
)

// Runtime makes sandboxes of a folder.
type Runtime struct {
	dir, state string
	held       *os.File // the state folder, whose path may be too long for a socket address

	mu    sync.Mutex
	boxes map[string]*box
}

var _ runtime.Runtime = (*Runtime)(nil)

// New returns a runtime whose sandboxes work in the folder dir. New makes state, a folder of its own that other users cannot read.
func New(dir, state string) (*Runtime, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", dir)
	}
	if err := os.RemoveAll(state); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	held, err := os.Open(state)
	if err != nil {
		return nil, err
	}
	return &Runtime{dir: dir, state: state, held: held, boxes: map[string]*box{}}, nil
}

// Name is folder.
func (*Runtime) Name() string { return "folder" }

// Probe reports that time limits are enforced, and nothing else.
func (*Runtime) Probe(context.Context) (runtime.Capabilities, error) {
	return runtime.Capabilities{
		Available: true, HostImage: true, State: runtime.StateSupported, Isolation: runtime.IsolationNone, AgentUID: "shared", OOMScope: "process",
		SharedTmp:   true, // an operator's workspace gets no folder for temporary files
		Protections: []runtime.Protection{runtime.WallTime(), {Name: runtime.ProtectCPUTime, Enforced: true, By: "agent"}},
	}, nil
}

// Create starts an agent.
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path := filepath.Join(r.state, spec.ID)
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, &runtime.StepError{Step: "spec", Err: err}
	}
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s/agent", r.held.Fd(), spec.ID))
	if err != nil {
		os.RemoveAll(path)
		return nil, &runtime.StepError{Step: "socket", Err: err}
	}
	agent, err := guest.New(guest.Config{
		Workspace: r.dir, Secrets: filepath.Join(path, "secrets"), LeaseMS: spec.Lease.Milliseconds(), Build: "folder",
	})
	if err != nil {
		l.Close()
		os.RemoveAll(path)
		return nil, &runtime.StepError{Step: "agent", Err: err}
	}
	b := &box{runtime: r, id: spec.ID, path: path, agent: agent, listener: l, Link: runtime.NewLink(nil, nil)}
	b.Connect(socket(l.Addr().String()))
	r.mu.Lock()
	r.boxes[spec.ID] = b
	r.mu.Unlock()
	b.serving.Go(func() { _ = agent.Serve(l) })
	b.serving.Go(func() {
		select {
		case <-agent.Done():
			go b.end(runtime.Exit{Reason: runtime.ExitAgent, Detail: "lease over"})
		case <-b.Gone():
		}
	})
	return b, nil
}

// Attach finds nothing: sandboxes end with this process.
func (r *Runtime) Attach(_ context.Context, id string) (runtime.Sandbox, error) {
	if b := r.find(id); b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("attach to %s: %w", id, runtime.ErrNotFound)
}

// List returns the ids of the sandboxes.
func (r *Runtime) List(context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.boxes)), nil
}

// Remove ends a sandbox.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if b := r.find(id); b != nil {
		return b.Destroy(ctx)
	}
	return nil
}

func (r *Runtime) find(id string) *box {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.boxes[id]
}

// Close ends all sandboxes.
func (r *Runtime) Close() error {
	ids, _ := r.List(context.Background()) // never fails
	var first error
	for _, id := range ids {
		if err := r.Remove(context.Background(), id); err != nil && first == nil {
			first = err
		}
	}
	if err := os.RemoveAll(r.state); err != nil && first == nil {
		first = err
	}
	r.held.Close()
	return first
}

// box is a sandbox.
type box struct {
	*runtime.Link
	runtime  *Runtime
	id, path string
	agent    *guest.Agent
	listener net.Listener
	serving  sync.WaitGroup

	once sync.Once
	err  error // valid once it has ended
}

// socket is the path of an agent's socket.
type socket string

// Dial connects to the agent.
func (s socket) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", string(s))
}

// ID returns the id of its spec.
func (b *box) ID() string { return b.id }

// Usage returns no figures: nothing separates the use of a sandbox.
func (b *box) Usage(context.Context) (runtime.Usage, error) {
	if b.Exit() != nil {
		return runtime.Usage{}, fmt.Errorf("usage of %s: %w", b.id, runtime.ErrGone)
	}
	return runtime.Usage{}, nil
}

// Destroy ends the agent and its programs. The folder stays.
func (b *box) Destroy(context.Context) error {
	b.end(runtime.Exit{Reason: runtime.ExitDestroyed})
	<-b.Gone()
	b.serving.Wait()
	return b.err
}

// end ends the agent. If it is called again, the first reason stays.
func (b *box) end(why runtime.Exit) {
	b.once.Do(func() {
		err := b.agent.Close()
		b.listener.Close()
		if e := os.RemoveAll(b.path); err == nil {
			err = e
		}
		b.runtime.mu.Lock()
		delete(b.runtime.boxes, b.id)
		b.runtime.mu.Unlock()
		b.err = err
		b.End(why)
	})
}
