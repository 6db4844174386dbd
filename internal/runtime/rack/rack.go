//go:build linux

// Package rack is the common part of the runtimes whose sandboxes are jars (package linux/jar): native and gvisor.
package rack

import (
	"context"
	"io"
	"log/slog"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
)

// Options configure a runtime. Agent is required.
type Options struct {
	// Agent is the program that becomes the first process of every sandbox. It is read to its end, and closed if it is
	// an [io.Closer].
	Agent io.Reader
	// RunDir holds sockets, locks and records; default as [jar.Options].
	RunDir string
	// IDDir holds the claims of host ids, for all installations of the machine; default as [jar.Options].
	IDDir string
	// Installation keeps sandboxes of different daemons apart; [belljar.ValidID]. Default cli.
	Installation string
	// NodeMemory and NodeMemoryWeak are as Memory and MemoryWeak of [jar.Options].
	NodeMemory     int64
	NodeMemoryWeak bool
	// Logger logs errors that cannot be returned; nil discards.
	Logger *slog.Logger
}

// Kind holds the differences between the runtimes.
type Kind struct {
	Name string
	// Adopt makes a sandbox of a jar that was found by its record.
	Adopt func(j *jar.Jar, record []byte) (jar.Box, error)
	// Tidy is as in [jar.Options].
	Tidy func(dir string)
}

// Rack manages the sandboxes of one runtime. Its boxes implement [runtime.Sandbox].
type Rack struct {
	Jars *jar.Rack
	// NoDisk is the reason why no workspace can be on disk; zero if one can.
	NoDisk runtime.Reason
	name   string
}

// Open prepares a rack. It touches nothing outside RunDir. The caller must close its jars.
func Open(k Kind, o Options) (*Rack, error) {
	if o.Agent == nil {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "this belljar was built without its agent", Hint: "build it with: make build",
		}
	}
	jars, err := jar.Open(jar.Options{
		Kind: k.Name, Agent: o.Agent, RunDir: o.RunDir, IDDir: o.IDDir, Installation: o.Installation, Memory: o.NodeMemory,
		MemoryWeak: o.NodeMemoryWeak, ValidID: belljar.ValidID, Adopt: k.Adopt, Tidy: k.Tidy, Logger: o.Logger,
		Errors: jar.Errors{
			Step: func(step string, err error, hint string) error {
				return runtime.FailedStep(step, err, hint)
			},
			Unknown: runtime.ErrNotFound, Gone: runtime.ErrGone, NoImage: runtime.ErrNoImage, Full: runtime.ErrFull,
		},
	})
	if err != nil {
		return nil, err
	}
	r := &Rack{Jars: jars, name: k.Name}
	if why, hint := disk.Missing(); why != "" {
		r.NoDisk = runtime.Reason{Code: "host_prerequisite_missing", Step: jar.StepMount, Detail: why, Hint: hint}
	}
	return r, nil
}

// Name implements [runtime.Runtime].
func (r *Rack) Name() string { return r.name }

var _ runtime.Bounded = (*Rack)(nil)

// Installation implements [runtime.Bounded].
func (r *Rack) Installation() runtime.Installation {
	whole := r.Jars.Installation()
	if whole == nil {
		return nil
	}
	return bound{whole}
}

// bound makes an installation's cgroup a [runtime.Installation].
type bound struct{ *cgroup.Installation }

// Watch implements [runtime.Installation].
func (b bound) Watch(percent ...int64) (runtime.Watch, error) {
	return b.Installation.Watch(percent...)
}

// List implements [runtime.Runtime].
func (r *Rack) List(context.Context) ([]string, error) { return r.Jars.List() }

// Attach implements [runtime.Runtime].
func (r *Rack) Attach(_ context.Context, id string) (runtime.Sandbox, error) {
	return sandbox(r.Jars.Attach(id))
}

// Remove implements [runtime.Runtime].
func (r *Rack) Remove(ctx context.Context, id string) error { return r.Jars.Remove(ctx, id) }

// Blank implements [runtime.Claimer]. Memory and processor time are limits of the cgroup, which can be changed from
// outside. The number of processes is settled at birth: programs inherit the agent's own limit.
func (r *Rack) Blank(spec runtime.Spec) runtime.Spec { return spec.Blank() }

// Claim gives the sandbox from to the caller of spec; settle puts the caller's limits in force.
func (r *Rack) Claim(ctx context.Context, from string, spec runtime.Spec, settle func(jar.Box) error) (runtime.Sandbox, error) {
	return sandbox(r.Jars.Claim(ctx, from, spec.ID, settle))
}

// sandbox makes a box a [runtime.Sandbox].
func sandbox(box jar.Box, err error) (runtime.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return box.(runtime.Sandbox), nil
}

// Sweep is [jar.Rack.Sweep].
func (r *Rack) Sweep(ctx context.Context) (int, error) { return r.Jars.Sweep(ctx) }

// SweepOthers is [jar.Rack.SweepOthers].
func (r *Rack) SweepOthers(ctx context.Context) (int, error) { return r.Jars.SweepOthers(ctx) }

// SweepUntraced is [jar.Rack.SweepUntraced].
func (r *Rack) SweepUntraced(ctx context.Context) (int, error) { return r.Jars.SweepUntraced(ctx) }
