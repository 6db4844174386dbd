//go:build linux

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/roster"
	"github.com/belljar/belljar/internal/linux/rundir"
	"github.com/belljar/belljar/internal/linux/seccomp"
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
	runsc   finder
	roster  *roster.Roster
	ids     *idmap.Pool
	agent   *os.File // sealed memfd
	file    agentFile
	null    *os.File
	cgroups *cgroup.Host
	filter  []byte // of commands, inside
	boot    string
	log     *slog.Logger

	mu     sync.Mutex
	living map[string]*sandbox
	births map[string]*birth

	roots    rootfs.Shelf
	programs forkexec.Pool // of births

	// reached hears how far a claim is; nil but in tests.
	reached func(point string)
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
	if o.Installation == "" {
		o.Installation = "cli"
	}
	if !belljar.ValidID(o.Installation) {
		return nil, fmt.Errorf("installation %q is not a valid name", o.Installation)
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
	if o.RunDir == "" {
		o.RunDir = rundir.Default()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{
		opts: o, runsc: finder{given: o.Path}, log: o.Logger, boot: roster.BootID(),
		living: map[string]*sandbox{}, births: map[string]*birth{},
	}
	if err := r.open(); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// open takes what a runtime has as long as it is open.
func (r *Runtime) open() (err error) {
	r.roster, err = roster.Open(r.opts.RunDir, []string{Name, r.opts.Installation}, belljar.ValidID)
	if err != nil {
		return &runtime.StepError{Step: stepState, Err: err, Hint: "give a folder of your own, or unset XDG_RUNTIME_DIR"}
	}
	if r.null, err = os.OpenFile("/dev/null", os.O_RDWR, 0); err != nil {
		return &runtime.StepError{Step: stepDev, Err: err}
	}
	text, err := io.ReadAll(r.opts.Agent)
	if err != nil || len(text) == 0 {
		return &runtime.StepError{Step: stepAgent, Err: fmt.Errorf("read the agent, %d bytes: %w", len(text), err)}
	}
	if r.agent, err = sealAgent(text); err != nil {
		return &runtime.StepError{Step: stepAgent, Err: err}
	}
	r.file = newAgentFile(r.roster.Dir(), r.agent, text)
	if r.ids, err = idmap.Discover(idmap.Options{Dir: r.opts.IDDir}); err != nil {
		return &runtime.StepError{Step: stepUserNS, Err: err}
	}
	if r.cgroups, err = cgroup.Discover(cgroup.Options{}); err != nil {
		r.log.Warn("cgroups cannot be used", "error", err)
	}
	// Also what only the agent's filter refuses elsewhere: in a user namespace of gVisor's own a program could mount, and so
	// get past the caps on its file systems.
	filter, err := seccomp.Whole(seccomp.Options{})
	if err != nil {
		return &runtime.StepError{Step: stepSeccomp, Err: err}
	}
	r.filter = filter.Bytes()
	return nil
}

func (r *Runtime) release() error {
	var errs []error
	for _, f := range []*os.File{r.null, r.agent} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Close releases what New took, and the folders that are empty now. Living sandboxes are not touched.
func (r *Runtime) Close() error {
	if r.cgroups != nil {
		r.cgroups.Sweep(r.group())
	}
	r.programs.Drain()
	r.tidy()
	return r.release()
}

// tidy removes the installation's folder if there is no sandbox in it.
func (r *Runtime) tidy() {
	if ids, err := r.roster.List(); err == nil && len(ids) == 0 {
		removeAgentFiles(r.roster.Dir())
	}
	os.Remove(r.roster.Dir()) // refused while there is a sandbox in it
}

// group is the installation's name among cgroups, where those of all runtimes lie side by side.
func (r *Runtime) group() string { return r.opts.Installation + "-" + Name }

// Name implements [runtime.Runtime].
func (r *Runtime) Name() string { return Name }

// List implements [runtime.Runtime].
func (r *Runtime) List(context.Context) ([]string, error) { return r.roster.List() }

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
	var rec record
	if err := r.roster.Read(id, &rec); err != nil {
		return nil, runtime.ErrNotFound
	}
	pidfd, err := rec.Open()
	if err != nil {
		return nil, runtime.ErrNotFound
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

// record is what is needed to find a sandbox again.
type record struct {
	roster.Process
	Lifetime runtime.Lifetime `json:"lifetime"`
	IDBase   int              `json:"id_base,omitempty"` // of its claim of host ids; 0 if it has none
	Cgroup   []cgroup.Folder  `json:"cgroup,omitempty"`  // wherever its maker lived, which need not be where we live
	Born     mould            `json:"born"`              // for a snapshot of it
}

// agentName is what the agent and the keep are called among processes.
const agentName = "belljar-agent"

// sealAgent puts the keep's program in memory that nobody can change any more.
func sealAgent(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(agentName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), agentName)
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(0o555)
	}
	if err == nil {
		seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("memfd: %w", err)
	}
	return f, nil
}
