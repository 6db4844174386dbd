//go:build linux

package native

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/landlock"
	"github.com/belljar/belljar/internal/linux/seccomp"
	"github.com/belljar/belljar/internal/linux/warden"
	"github.com/belljar/belljar/internal/runtime"
)

// Name is what a request calls this runtime.
const Name = "native"

// Version is the runtime's own, reported as runtime_version.
const Version = "1"

// Options say where a runtime keeps its things. Agent is required.
type Options struct {
	// Agent is the program that becomes PID 1 of every sandbox. New reads it to its end.
	Agent io.Reader
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
	rack    *jar.Rack
	warden  *warden.Client // of sandboxes that outlive this process
	own     *warden.Client // of those that end with it
	abi     int            // of Landlock, 0 for none
	lastCap int
	// overlays says that this kernel mounts overlays for a user namespace.
	overlays bool

	mu      sync.Mutex
	filters map[bool]seccomp.Filter // by whether agent and user share an id

	// edit breaks a birth, with descriptors that the breakage needs; nil but in tests.
	edit func(*forkexec.Program) []int
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Tester  = (*Runtime)(nil)
	_ runtime.Claimer = (*Runtime)(nil)
)

// New prepares a runtime. It touches nothing outside RunDir. The caller closes it.
func New(o Options) (*Runtime, error) {
	if o.Agent == nil {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "this belljar was built without its agent", Hint: "build it with: make build",
		}
	}
	r := &Runtime{abi: landlock.ABI(), lastCap: lastCap(), overlays: overlays(), filters: map[bool]seccomp.Filter{}}
	var err error
	r.rack, err = jar.Open(jar.Options{
		Kind: Name, Agent: o.Agent, RunDir: o.RunDir, IDDir: o.IDDir, Installation: o.Installation, Memory: o.NodeMemory, MemoryWeak: o.NodeMemoryWeak, ValidID: belljar.ValidID,
		Adopt: r.adopt, Logger: o.Logger,
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
	r.warden = warden.NewClient(r.rack.WardenSocket(), r.rack.Agent)
	r.own = warden.NewOwnClient(r.rack.WardenSocket()+"-"+rand.Text(), r.rack.Agent)
	return r, nil
}

// Close releases what New took, and the folders that are empty now. Living sandboxes are not touched.
func (r *Runtime) Close() error { return errors.Join(r.warden.Close(), r.own.Close(), r.rack.Close()) }

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

// filter compiles the seccomp filters once.
func (r *Runtime) filter(shared bool) (seccomp.Filter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.filters[shared]; ok {
		return f, nil
	}
	f, err := seccomp.Sandbox(seccomp.Options{SharedUID: shared})
	if err == nil {
		r.filters[shared] = f
	}
	return f, err
}

// lastCap is the highest capability of this kernel.
func lastCap() int {
	raw, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			return n
		}
	}
	return unix.CAP_LAST_CAP
}
