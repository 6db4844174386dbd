//go:build linux

package gvisor

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
)

// Name is what a request calls this runtime.
const Name = "gvisor"

// The platforms: how the sentry gets hold of a program's system calls.
const (
	PlatformSystrap = "systrap" // by a signal; the default
	PlatformPtrace  = "ptrace"  // by ptrace(2): some twenty times slower, where systrap does not run
	PlatformKVM     = "kvm"     // by /dev/kvm, which has to be open to everybody
)

// Options say where a runtime keeps its things. Agent is required.
type Options struct {
	// Path is belljar-runsc; default is the one beside this program, else the first in PATH. A runtime without it can be
	// made and says what is missing.
	Path string
	// Agent is the program that is the first process in every sandbox, and also the keep outside. New reads it to its end.
	Agent io.Reader
	// Platform is how the sentry gets hold of system calls; default [PlatformSystrap].
	Platform string
	// RunDir holds sockets, locks and records; default as [jar.Options].
	RunDir string
	// IDDir is where claims of host ids are kept, for all installations of the machine; default as [jar.Options].
	IDDir string
	// Installation keeps sandboxes of different daemons apart; [belljar.ValidID]. Default cli.
	Installation string
	// NodeMemory and NodeMemoryWeak are as Memory and MemoryWeak of [jar.Options].
	NodeMemory     int64
	NodeMemoryWeak bool
	// Logger hears what cannot be returned; nil discards.
	Logger *slog.Logger
}

// Runtime builds sandboxes. It implements [runtime.Runtime].
type Runtime struct {
	rack     *jar.Rack
	platform string
	runsc    finder
	file     agentFile
}

var (
	_ runtime.Runtime  = (*Runtime)(nil)
	_ runtime.Tester   = (*Runtime)(nil)
	_ runtime.Claimer  = (*Runtime)(nil)
	_ runtime.Restorer = (*Runtime)(nil)
)

// New prepares a runtime. It touches nothing outside RunDir. The caller closes it.
func New(o Options) (*Runtime, error) {
	if o.Agent == nil {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "this belljar was built without its agent", Hint: "build it with: make build",
		}
	}
	switch o.Platform {
	case "":
		o.Platform = PlatformSystrap
	case PlatformSystrap, PlatformPtrace, PlatformKVM:
	default:
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("gvisor has no platform %q", o.Platform),
			Hint: "systrap, ptrace or kvm",
		}
	}
	r := &Runtime{platform: o.Platform, runsc: finder{given: o.Path}}
	var err error
	r.rack, err = jar.Open(jar.Options{
		Kind: Name, Agent: o.Agent, RunDir: o.RunDir, IDDir: o.IDDir, Installation: o.Installation, Memory: o.NodeMemory, MemoryWeak: o.NodeMemoryWeak,
		ValidID: belljar.ValidID, Adopt: r.adopt, Tidy: removeAgentFiles, Logger: o.Logger,
		Errors: jar.Errors{
			Step: func(step string, err error, hint string) error {
				return &runtime.StepError{Step: step, Err: err, Hint: hint}
			},
			Unknown: runtime.ErrNotFound, Gone: runtime.ErrGone, NoImage: runtime.ErrNoImage, Full: runtime.ErrFull,
		},
	})
	if err != nil {
		return nil, err
	}
	if r.file, err = newAgentFile(r.rack.Dir(), r.rack.Agent); err != nil {
		r.rack.Close()
		return nil, &runtime.StepError{Step: jar.StepAgent, Err: err}
	}
	return r, nil
}

// Close releases what New took, and the folders that are empty now. Living sandboxes are not touched.
func (r *Runtime) Close() error { return r.rack.Close() }

// Name implements [runtime.Runtime].
func (r *Runtime) Name() string { return Name }

// Whole implements [runtime.Bounded].
func (r *Runtime) Whole() runtime.Whole {
	whole := r.rack.Whole()
	if whole == nil {
		return nil
	}
	return bound{whole}
}

// bound is an installation's cgroup as the contract has it.
type bound struct{ *cgroup.Whole }

// Watch implements [runtime.Whole].
func (b bound) Watch(percent ...int64) (runtime.Watch, error) { return b.Whole.Watch(percent...) }

// List implements [runtime.Runtime].
func (r *Runtime) List(context.Context) ([]string, error) { return r.rack.List() }

// Attach implements [runtime.Runtime].
func (r *Runtime) Attach(_ context.Context, id string) (runtime.Sandbox, error) {
	return made(r.rack.Attach(id))
}

// Remove implements [runtime.Runtime].
func (r *Runtime) Remove(ctx context.Context, id string) error { return r.rack.Remove(ctx, id) }

// Sweep is [jar.Rack.Sweep].
func (r *Runtime) Sweep(ctx context.Context) (int, error) { return r.rack.Sweep(ctx) }

// SweepOthers is [jar.Rack.SweepOthers].
func (r *Runtime) SweepOthers(ctx context.Context) (int, error) { return r.rack.SweepOthers(ctx) }

// SweepUntraced is [jar.Rack.SweepUntraced].
func (r *Runtime) SweepUntraced(ctx context.Context) (int, error) { return r.rack.SweepUntraced(ctx) }
