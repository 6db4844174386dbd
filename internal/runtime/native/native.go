//go:build linux

package native

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/landlock"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/rundir"
	"github.com/belljar/belljar/internal/linux/seccomp"
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
	// RunDir holds sockets, locks and records; default as [rundir.Default].
	RunDir string
	// IDDir is where claims of host ids are kept, for all installations of the machine; default as [idmap.Options].
	IDDir string
	// Installation keeps sandboxes of different daemons apart; [belljar.ValidID]. Default cli.
	Installation string
	// Logger hears what cannot be returned; nil discards.
	Logger *slog.Logger
}

// Runtime builds sandboxes. It implements [runtime.Runtime].
type Runtime struct {
	opts    Options
	state   state
	ids     *idmap.Pool
	agent   *os.File // sealed memfd
	null    *os.File
	cgroups *cgroup.Host
	abi     int // of Landlock, 0 for none
	lastCap int
	boot    string
	log     *slog.Logger

	mu      sync.Mutex
	filters map[bool]seccomp.Filter // by whether agent and user share an id
	living  map[string]*sandbox
	births  map[string]*birth

	roots    rootfs.Shelf
	programs forkexec.Pool // of births

	// edit breaks a birth, with descriptors that the breakage needs; nil but in tests.
	edit func(*forkexec.Program) []int
	// reached hears how far a claim is; nil but in tests.
	reached func(point string)
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Tester  = (*Runtime)(nil)
)

// New prepares a runtime. It touches nothing outside RunDir. The caller closes it.
func New(o Options) (*Runtime, error) {
	if o.Agent == nil {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "this belljar was built without its agent", Hint: "build it with: make build",
		}
	}
	if o.Installation == "" {
		o.Installation = "cli"
	}
	if !belljar.ValidID(o.Installation) {
		return nil, fmt.Errorf("installation %q is not a valid name", o.Installation)
	}
	if o.RunDir == "" {
		o.RunDir = rundir.Default()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{
		opts: o, log: o.Logger, abi: landlock.ABI(), lastCap: lastCap(), boot: bootID(),
		filters: map[bool]seccomp.Filter{}, living: map[string]*sandbox{}, births: map[string]*birth{},
	}
	var err error
	if r.state, err = openState(o.RunDir, o.Installation); err != nil {
		return nil, &runtime.StepError{Step: stepState, Err: err, Hint: "give a folder of your own, or unset XDG_RUNTIME_DIR"}
	}
	if r.null, err = os.OpenFile("/dev/null", os.O_RDWR, 0); err != nil {
		return nil, &runtime.StepError{Step: stepDev, Err: err}
	}
	if r.agent, err = sealAgent(o.Agent); err != nil {
		r.null.Close()
		return nil, &runtime.StepError{Step: stepAgent, Err: err}
	}
	if r.ids, err = idmap.Discover(idmap.Options{Dir: o.IDDir}); err != nil {
		r.null.Close()
		r.agent.Close()
		return nil, &runtime.StepError{Step: stepUserNS, Err: err}
	}
	if r.cgroups, err = cgroup.Discover(cgroup.Options{}); err != nil {
		r.log.Warn("cgroups cannot be used", "error", err)
	}
	return r, nil
}

// Close releases what New took, and the folders that are empty now. Living sandboxes are not touched.
func (r *Runtime) Close() error {
	if r.cgroups != nil {
		r.cgroups.Sweep(r.opts.Installation)
	}
	r.programs.Drain()
	os.Remove(r.state.dir) // refused while there is a sandbox in it
	return errors.Join(r.null.Close(), r.agent.Close())
}

// Name implements [runtime.Runtime].
func (r *Runtime) Name() string { return Name }

// List implements [runtime.Runtime].
func (r *Runtime) List(context.Context) ([]string, error) { return r.state.list() }

// Attach implements [runtime.Runtime].
func (r *Runtime) Attach(_ context.Context, id string) (runtime.Sandbox, error) {
	r.mu.Lock()
	living := r.living[id]
	r.mu.Unlock()
	if living != nil {
		return living, nil
	}
	if !belljar.ValidID(id) {
		return nil, runtime.ErrNotFound
	}
	rec, err := r.state.read(id)
	if err != nil {
		return nil, runtime.ErrNotFound
	}
	pidfd, err := rec.open()
	if err != nil {
		return nil, err
	}
	return r.adopt(id, rec, pidfd)
}

// Remove implements [runtime.Runtime].
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if !belljar.ValidID(id) {
		return fmt.Errorf("%q is not a sandbox id", id)
	}
	if err := r.forestall(ctx, id); err != nil {
		return fmt.Errorf("end the birth of sandbox %s: %w", id, err)
	}
	if s, err := r.Attach(ctx, id); err == nil {
		return s.Destroy(ctx)
	}
	if err := r.endHalfMade(ctx, id); err != nil {
		return fmt.Errorf("end sandbox %s: %w", id, err) // its traces stay, to find it by
	}
	return r.clean(ctx, id)
}

// Sweep removes what sandboxes of this installation have left behind whose creators and agents are gone, and half-made
// ones whose creators are: nobody could attach to them. It returns how many it removed.
func (r *Runtime) Sweep(ctx context.Context) (int, error) {
	ids, err := r.state.list()
	if err != nil {
		return 0, err
	}
	swept := 0
	var errs []error
	for _, id := range ids {
		done, err := r.sweep(ctx, id)
		if done {
			swept++
		}
		errs = append(errs, err)
	}
	return swept, errors.Join(append(errs, r.ids.Sweep())...)
}

// sweep removes one sandbox, unless somebody has it.
func (r *Runtime) sweep(ctx context.Context, id string) (bool, error) {
	lock, err := r.state.take(id, unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		defer lock.Close()
		// Whoever lives holds the lock, unless somebody else has removed its file.
		if s, attachErr := r.Attach(ctx, id); attachErr == nil {
			err = s.Destroy(ctx)
		} else {
			err = r.clean(ctx, id)
		}
	case r.abandoned(id):
		err = r.Remove(ctx, id)
	default:
		return false, nil
	}
	return err == nil, err
}

// clean removes every trace of a sandbox whose processes are gone.
func (r *Runtime) clean(ctx context.Context, id string) error {
	var errs []error
	rec, err := r.state.read(id)
	if err == nil {
		if group, err := cgroup.Open(rec.Cgroup); err == nil {
			errs = append(errs, group.Remove(ctx))
		}
		if rec.IDBase > 0 {
			errs = append(errs, r.ids.Forget(rec.IDBase))
		}
	} else {
		errs = append(errs, r.ids.Sweep()) // a half-made one does not say which were its
	}
	if r.cgroups != nil && (err == nil || !r.grouped(id)) {
		errs = append(errs, r.cgroups.Remove(ctx, r.opts.Installation, id))
	}
	if err := errors.Join(errs...); err != nil {
		return err // what is left is found again by the traces
	}
	return r.state.forget(id)
}

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

// agentName is what the agent is called among processes.
const agentName = "belljar-agent"

// sealAgent puts the agent in memory that nobody can change any more, not even root inside a sandbox through
// /proc/self/exe (CVE-2019-5736).
func sealAgent(program io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(agentName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), agentName)
	if n, err := io.Copy(f, program); err != nil || n == 0 {
		f.Close()
		return nil, fmt.Errorf("copy the agent, %d bytes: %w", n, err)
	}
	if err := f.Chmod(0o555); err != nil {
		f.Close()
		return nil, fmt.Errorf("memfd: %w", err)
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal memfd: %w", err)
	}
	return f, nil
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
