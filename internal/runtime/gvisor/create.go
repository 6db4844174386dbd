//go:build linux

package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/roster"
	"github.com/belljar/belljar/internal/runtime"
)

// keepCommand makes the agent's program a keep.
const keepCommand = "keep"

// keepConfig, keepReport and keepLast are what a keep is told and tells; they are keep.Config, keep.Report and keep.Last,
// which this package must not import.
type keepConfig struct {
	StreamFD   int                 `json:"stream_fd"`
	OrderFD    int                 `json:"order_fd"`
	ReadyFD    int                 `json:"ready_fd"`
	LastFD     int                 `json:"last_fd"`
	LifelineFD int                 `json:"lifeline_fd,omitempty"`
	Start      []string            `json:"start"`
	StartFD    int                 `json:"start_fd,omitempty"`
	PidFile    string              `json:"pid_file"`
	Orders     map[string][]string `json:"orders"`
	Lock       string              `json:"lock"`
}

type keepReport struct {
	Error string `json:"error"`
}

type keepLast struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal"`
	Detail string `json:"detail"`
}

// errFewIDs says that this host has not even the two ids that a jar needs.
var errFewIDs = errors.New("gVisor needs two user ids for a sandbox, of which none is yours")

// cleanup is a stack of what to undo.
type cleanup []func()

func (c *cleanup) add(f func()) { *c = append(*c, f) }

func (c *cleanup) run() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
	*c = nil
}

// Create implements [runtime.Runtime].
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	return r.create(ctx, spec, nil)
}

// create builds a sandbox, of a snapshot unless that is nil.
func (r *Runtime) create(ctx context.Context, spec runtime.Spec, snapshot *folder) (runtime.Sandbox, error) {
	if err := r.check(spec); err != nil {
		return nil, err
	}
	ctx, over, err := r.begin(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer over()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var undo cleanup
	defer func() { undo.run() }()

	ids, err := r.claimIDs()
	if err != nil {
		return nil, err
	}
	undo.add(func() { ids.Release() })
	image, err := r.hold(ctx, spec.Root)
	if err != nil {
		return nil, &runtime.StepError{Step: stepImage, Err: err}
	}
	defer image.Close()
	f, err := r.prepare(spec.ID)
	if err != nil {
		return nil, err
	}
	undo.add(func() { r.roster.Forget(spec.ID); f.lock.Close() })
	defer f.close()
	again := againBytes(image.Tree, spec.Limits)
	k := kernelLimits(spec.Limits, spec.Workspace, again)
	group, err := r.makeGroup(spec.ID, k)
	if err != nil {
		return nil, err
	}
	if group != nil {
		undo.add(func() { group.Remove(context.Background()) })
		defer group.CloseEntry()
	}
	s := &sandbox{
		rt: r, id: spec.ID, lock: f.lock, ids: ids, group: group, born: spec, again: again, mould: r.mouldOf(spec), base: ids.Base(),
	}
	pl, err := r.plan(spec, k, ids, group, image, f, snapshot)
	if err != nil {
		return nil, err
	}
	child, err := r.start(ctx, pl, ids, group)
	if err != nil {
		return nil, explain(ctx, err)
	}
	undo.add(func() { kill(child.PidFD) })
	if spec.Lifetime != runtime.LifetimeDetached {
		s.lifeline = f.takeLifeline()
	}
	f.passed()
	if err := r.record(spec, s, child); err != nil {
		return nil, &runtime.StepError{Step: stepState, Err: err}
	}
	if err := f.awaitReady(ctx); err != nil {
		return nil, r.explainStart(ctx, s, err)
	}
	if err := s.watch(child.Pid, child.PidFD, true); err != nil {
		return nil, &runtime.StepError{Step: stepAgent, Err: err}
	}
	r.remember(s)
	undo = nil
	return s, nil
}

func (r *Runtime) claimIDs() (*idmap.Range, error) {
	ids, err := r.ids.Claim()
	if errors.Is(err, idmap.ErrExhausted) {
		err = fmt.Errorf("%w: %w", runtime.ErrFull, err)
	}
	if err == nil {
		if err = enough(ids); err != nil {
			ids.Release()
		}
	}
	if err != nil {
		return nil, &runtime.StepError{Step: stepUserNS, Err: err, Hint: r.ids.Hint}
	}
	return ids, nil
}

// start forks the keep and returns when it runs.
func (r *Runtime) start(ctx context.Context, pl *plan, ids *idmap.Range, group *cgroup.Group) (forkexec.Child, error) {
	program := r.programs.New()
	defer program.Free()
	pl.program(program)
	options := forkexec.Options{Flags: cloneFlags, Only: pl.descriptors(), Sync: func(pid int) error {
		if err := ids.Write(pid); err != nil {
			return &runtime.StepError{Step: stepUserNS, Err: err}
		}
		return nil
	}}
	if group != nil {
		options.Cgroup = group.FD()
	}
	return program.StartContext(ctx, options)
}

// errRemoved ends a Create whose sandbox is removed meanwhile.
var errRemoved = errors.New("the sandbox was removed while it was made")

// birth is a Create that is under way.
type birth struct {
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when it has ended and, if it failed, left nothing
}

// begin puts a Create on record, so that [Runtime.Remove] can end it. over ends the record.
func (r *Runtime) begin(ctx context.Context, id string) (_ context.Context, over func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &birth{cancel: cancel, over: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.births[id] != nil {
		cancel(nil)
		return nil, nil, &runtime.StepError{Step: stepState, Err: fmt.Errorf("sandbox %s exists", id)}
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

// forestall ends a Create of id that is under way here, and waits until it has.
func (r *Runtime) forestall(ctx context.Context, id string) error {
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

// check refuses what this runtime cannot do, before anything is made.
func (r *Runtime) check(spec runtime.Spec) error {
	if !belljar.ValidID(spec.ID) {
		return fmt.Errorf("%q is not a sandbox id", spec.ID)
	}
	if err := checkUser(spec.Root); err != nil {
		return err
	}
	if spec.Root.Name != "" {
		return &runtime.StepError{Step: stepImage, Err: fmt.Errorf("%s is an image of another runtime's engine", spec.Root.Name)}
	}
	if spec.Network.Mode != "" && spec.Network.Mode != runtime.NetworkNone {
		return &runtime.StepError{Step: stepNetwork, Err: fmt.Errorf("network mode %q is not available", spec.Network.Mode)}
	}
	if spec.Workspace.Medium == runtime.MediumDisk {
		return &runtime.StepError{Step: stepMount, Err: errors.New("a workspace on disk is not available")}
	}
	if spec.Workspace.Bytes <= 0 || spec.Workspace.Inodes <= 0 {
		return &runtime.StepError{Step: stepMount, Err: errors.New("a workspace needs a size and a number of inodes")}
	}
	caps := r.capabilities()
	if !caps.Available {
		why := caps.Reasons[0]
		return &runtime.StepError{Step: why.Step, Err: errors.New(why.Detail), Hint: why.Hint}
	}
	for _, name := range spec.Require {
		if p := caps.Protection(name); !p.Enforced {
			return &runtime.StepError{Step: name, Err: fmt.Errorf("%s cannot be enforced here", name), Hint: p.Hint}
		}
	}
	return nil
}

// plan gathers what the child needs.
func (r *Runtime) plan(spec runtime.Spec, k limits, ids *idmap.Range, group *cgroup.Group, image *rootfs.Held, f *files, snapshot *folder) (*plan, error) {
	agent, err := r.file.in(r.roster.Folder(spec.ID))
	if err != nil {
		return nil, &runtime.StepError{Step: stepAgent, Err: err}
	}
	pl := &plan{
		workspace: spec.Workspace, asked: spec.Limits, limits: k, lease: spec.Lease, user: userOf(spec.Root), root: image.Tree,
		image: spec.Root.Dir, runsc: r.runsc.find().path, agentFile: agent, platform: r.opts.Platform, filter: r.filter,
		snapshot: snapshot, null: int(r.null.Fd()), keep: int(r.agent.Fd()),
	}
	if pl.config, err = pl.bundle(); err != nil {
		return nil, err
	}
	if group != nil {
		pl.taskFDs = group.TaskFDs()
	}
	own, err := roster.InodeOf(f.lock)
	if err != nil {
		return nil, &runtime.StepError{Step: stepState, Err: err}
	}
	config := keepConfig{
		StreamFD: int(f.streams.Fd()), OrderFD: int(f.orders.Fd()), ReadyFD: int(f.readyIn.Fd()), LastFD: int(f.last.Fd()),
		Start: pl.startArgs(), PidFile: pidFile, Orders: pl.orders(), Lock: own.String(),
	}
	keep := []*os.File{f.lock, f.streams, f.orders, f.readyIn, f.last, image.Lock, ids.Lock}
	if spec.Lifetime != runtime.LifetimeDetached {
		if err := f.makeLifeline(); err != nil {
			return nil, &runtime.StepError{Step: stepAgent, Err: err}
		}
		config.LifelineFD = int(f.lifelineOut.Fd())
		keep = append(keep, f.lifelineOut)
	}
	if snapshot != nil {
		config.StartFD = int(snapshot.file.Fd())
		keep = append(keep, snapshot.file)
	}
	for _, file := range slices.DeleteFunc(keep, func(f *os.File) bool { return f == nil }) {
		pl.keepFDs = append(pl.keepFDs, int(file.Fd()))
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	pl.argument = string(raw)
	return pl, nil
}

// record writes down what finds a sandbox again.
func (r *Runtime) record(spec runtime.Spec, s *sandbox, child forkexec.Child) error {
	rec := record{
		Process:  roster.Process{Pid: child.Pid, StartTime: child.StartTime, BootID: r.boot},
		Lifetime: spec.Lifetime, IDBase: s.ids.Base(), Born: s.mould,
	}
	if s.group != nil {
		rec.Cgroup = s.group.Folders()
	}
	return r.roster.Write(spec.ID, rec)
}

// explain turns the child's failure into a step with a hint.
func explain(ctx context.Context, err error) error {
	var step *runtime.StepError
	if errors.As(err, &step) {
		return err
	}
	var fe *forkexec.Error
	switch {
	case errors.As(err, &fe) && fe.Step == stepImage && fe.Errno == unix.ENOENT:
		return &runtime.StepError{Step: fe.Step, Err: fmt.Errorf("%w: %w", runtime.ErrNoImage, fe.Errno)}
	case errors.As(err, &fe):
		return &runtime.StepError{Step: fe.Step, Err: fe.Errno, Hint: hint(fe)}
	case errors.Is(err, forkexec.ErrVanished):
		return &runtime.StepError{Step: stepBirth, Err: err, Hint: killedHint}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &runtime.StepError{Step: stepBirth, Err: err, Hint: "the host is overloaded, or something has stopped the new processes"}
	}
	return &runtime.StepError{Step: stepBirth, Err: err}
}

// killedHint is for a birth that somebody else has ended.
const killedHint = "something on this host has killed it, most likely for want of memory: look for oom in the kernel's log"

// hint says what usually stands behind a failing step.
func hint(e *forkexec.Error) string {
	switch {
	case e.Step == "clone" && e.Errno == unix.ENOSPC:
		return "raise user.max_user_namespaces and user.max_net_namespaces with sysctl"
	case e.Step == "clone" || e.Step == stepUserNS:
		return "this host forbids user namespaces: allow kernel.unprivileged_userns_clone, or load the AppArmor profile in deploy/apparmor, or in a container allow the clone and unshare system calls"
	case e.Step == stepProc && e.Errno == unix.EPERM:
		return "an outer container masks /proc: start it with --security-opt systempaths=unconfined"
	case e.Step == stepProgram && e.Errno == unix.EACCES:
		return programName + " and the folders above it must be open to everybody"
	case e.Errno == unix.ENOSYS:
		return "Linux 5.12 or newer is needed, and an outer container must not filter the mount system calls"
	case e.Errno == unix.EPERM:
		return "an outer container's seccomp or AppArmor profile forbids this: belljar doctor prints the flags that help"
	}
	return ""
}

// explainStart says why a keep that runs has no sandbox.
func (r *Runtime) explainStart(ctx context.Context, s *sandbox, err error) error {
	step := &runtime.StepError{Step: stepProgram, Err: err}
	var own *runtime.StepError
	switch {
	case errors.As(err, &own):
		step = own
	case ctx.Err() != nil:
		step.Step, step.Err = stepBirth, context.Cause(ctx)
	case s.group != nil && oomKilled(usageOf(s.group.Usage())):
		step.Hint = "the memory limit is too low for it"
	case errors.Is(err, io.ErrUnexpectedEOF):
		step.Step, step.Hint = stepBirth, killedHint
	case errors.Is(err, fs.ErrNotExist):
		step.Hint = programName + " is gone"
	}
	return step
}
