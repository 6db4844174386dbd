//go:build linux

// Package fake is a runtime without isolation, for tests of the code above the runtime contract. It runs the real guest
// agent in this process, over real connections, and passes the conformance suite except for isolation. Its programs
// have the rights of the test: never give it a program that could harm the machine.
package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Options state how a runtime's sandboxes are reached and where they live. The zero value is usable.
type Options struct {
	// Host is the machine that the sandboxes run on. Two runtimes with the same Host are a daemon before and after its
	// restart. nil is a new machine.
	Host *Host
	// Mux reaches each agent over one byte stream and a multiplexer, like runtimes without sockets. Otherwise every
	// Dial opens a Unix socket.
	Mux bool
	// Dir holds the workspaces; "" is the system's temporary folder.
	Dir string
	// Enforces lists protections to report as enforced, for tests that depend on them.
	Enforces []string
	// Ports lets hosts connect to the ports of sandboxes. These are ports of this machine, so sandboxes share them.
	Ports bool
	// StandIns are the protections to report as having a stand-in, which it names.
	StandIns map[string]string
}

// Host holds what survives a daemon: the detached sandboxes. Make it with [NewHost]. Safe for concurrent use.
type Host struct {
	mu    sync.Mutex
	boxes map[string]*box
}

// NewHost returns a machine without sandboxes.
func NewHost() *Host { return &Host{boxes: make(map[string]*box)} }

// Runtime implements [runtime.Runtime].
type Runtime struct {
	host *Host
	mux  bool
	dir  string

	ports    bool
	enforces []string
	standIns map[string]string
}

// New returns a runtime.
func New(o Options) *Runtime {
	r := &Runtime{host: o.Host, mux: o.Mux, dir: o.Dir, ports: o.Ports, enforces: o.Enforces, standIns: o.StandIns}
	if r.host == nil {
		r.host = NewHost()
	}
	return r
}

// Close simulates the end of the daemon: its connections break, sandboxes of [runtime.LifetimeCreator] end and detached
// ones stay on the host. It may be called twice.
func (r *Runtime) Close() error {
	r.host.mu.Lock()
	all := slices.Collect(maps.Values(r.host.boxes))
	r.host.mu.Unlock()
	var errs []error
	for _, b := range all {
		if !b.ownedBy(r) {
			continue
		}
		if b.detached {
			b.disconnect()
		} else {
			errs = append(errs, b.end(runtime.Exit{Reason: runtime.ExitAgent, Detail: "creator gone"}))
		}
	}
	return errors.Join(errs...)
}

// Name implements [runtime.Runtime].
func (r *Runtime) Name() string { return "fake" }

// Probe implements [runtime.Runtime]. Everything is available and almost nothing is enforced.
func (r *Runtime) Probe(context.Context) (runtime.Capabilities, error) { return r.capabilities(), nil }

func (r *Runtime) capabilities() runtime.Capabilities {
	c := runtime.Capabilities{
		Available: true,
		HostImage: true,
		State:     runtime.StateSupported,
		Isolation: runtime.IsolationNone,
		AgentUID:  "shared",
		OOMScope:  "process",
		Protections: []runtime.Protection{
			{Name: runtime.ProtectWallTime, Enforced: true, By: "agent"},
			{Name: runtime.ProtectCPUTime, Enforced: true, By: "agent"},
		},
	}
	for _, name := range []string{
		runtime.ProtectFilesystem, runtime.ProtectNetwork, runtime.ProtectSeccomp, runtime.ProtectIdentity,
		runtime.ProtectPids, runtime.ProtectMemory, runtime.ProtectCPU, runtime.ProtectDisk, runtime.ProtectLandlock,
	} {
		p := runtime.Protection{Name: name, By: r.standIns[name], Hint: "use a runtime that isolates"}
		if slices.Contains(r.enforces, name) {
			p = runtime.Protection{Name: name, Enforced: true, By: "its word"}
		}
		c.Protections = append(c.Protections, p)
	}
	return c
}

// Create implements [runtime.Runtime].
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.check(spec); err != nil {
		return nil, err
	}
	b := &box{id: spec.ID, owner: r, host: r.host, detached: spec.Lifetime == runtime.LifetimeDetached, gone: make(chan struct{})}
	b.born = spec
	b.born.ID, b.born.Lease = "", 0
	r.host.mu.Lock()
	if _, taken := r.host.boxes[spec.ID]; taken {
		r.host.mu.Unlock()
		return nil, &runtime.StepError{Step: "spec", Err: fmt.Errorf("sandbox %s exists", spec.ID)}
	}
	r.host.boxes[spec.ID] = b
	b.mu.Lock() // a caller that finds the box waits until it is made
	r.host.mu.Unlock()
	defer b.mu.Unlock()
	if err := b.start(spec, r.dir, r.mux, r.ports); err != nil {
		r.host.forget(b)
		b.exit = runtime.Exit{Reason: runtime.ExitDestroyed, Detail: "never made"}
		b.ended = true
		close(b.gone)
		return nil, err
	}
	return &sandbox{box: b}, nil
}

// check refuses requests that this runtime does not support.
func (r *Runtime) check(spec runtime.Spec) error {
	if !belljar.ValidID(spec.ID) {
		return &runtime.StepError{Step: "spec", Err: fmt.Errorf("invalid id %q", spec.ID)}
	}
	if spec.Workspace.ID != "" {
		return &runtime.StepError{Step: "workspace", Err: errors.New("a workspace that outlives its sandbox is not available")}
	}
	if spec.Workspace.Below.Dir != "" {
		return &runtime.StepError{Step: "mount", Err: errors.ErrUnsupported}
	}
	if len(spec.Root.Layers) > 0 {
		return &runtime.StepError{Step: "mount", Err: errors.New("layers are not available")}
	}
	for _, name := range spec.Require {
		if !r.capabilities().Protection(name).Enforced {
			return &runtime.StepError{Step: name, Err: errors.New("not enforced by the fake runtime")}
		}
	}
	return nil
}

// Attach implements [runtime.Runtime].
func (r *Runtime) Attach(_ context.Context, id string) (runtime.Sandbox, error) {
	b := r.host.find(id)
	if b == nil || !b.adopt(r) {
		return nil, fmt.Errorf("attach to %s: %w", id, runtime.ErrNotFound)
	}
	return &sandbox{box: b}, nil
}

// List implements [runtime.Runtime].
func (r *Runtime) List(context.Context) ([]string, error) {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	return slices.Sorted(maps.Keys(r.host.boxes)), nil
}

// Remove implements [runtime.Runtime].
func (r *Runtime) Remove(_ context.Context, id string) error {
	b := r.host.find(id)
	if b == nil {
		return nil
	}
	return b.end(runtime.Exit{Reason: runtime.ExitDestroyed})
}

func (h *Host) find(id string) *box {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boxes[id]
}

func (h *Host) forget(b *box) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.boxes, b.id)
}

// workspaceIn makes a folder for one sandbox.
func workspaceIn(dir string) (string, error) {
	top, err := os.MkdirTemp(dir, "belljar-fake-")
	if err != nil {
		return "", err
	}
	return top, os.Mkdir(top+"/workspace", 0o755)
}
