//go:build linux

package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/seccomp"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// keepCommand makes the agent's program run as a keep.
const keepCommand = "keep"

// errFewIDs means that this host lacks even the two ids that a jar needs.
var errFewIDs = errors.New("gVisor needs two user ids for a sandbox, of which none is yours")

// Create implements [runtime.Runtime].
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	return r.create(ctx, spec, nil)
}

// create builds a sandbox, from a snapshot unless that is nil.
func (r *Runtime) create(ctx context.Context, spec runtime.Spec, snapshot *folder) (runtime.Sandbox, error) {
	if err := r.check(spec); err != nil {
		return nil, err
	}
	b, ctx, err := r.Jars.Begin(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := b.ClaimIDs(); err != nil {
		return nil, err
	}
	if !enough(b.IDs) {
		return nil, &runtime.StepError{Step: jar.StepUserNS, Err: errFewIDs, Hint: r.Jars.IDs.Hint}
	}
	image, err := r.Jars.OpenImage(ctx, spec.Root.Dir, spec.Root.Lock, rack.User(spec.Root))
	if err != nil {
		return nil, err
	}
	defer image.Close()
	disk, err := openDisk(spec.Workspace, b, rack.User(spec.Root))
	if err != nil {
		return nil, err
	}
	defer disk.Close()
	if err := b.ClaimFolder(); err != nil {
		return nil, err
	}
	f := &files{}
	defer f.close()
	if err := f.open(b); err != nil {
		return nil, err
	}
	again := againBytes(image.Tree, spec.Limits)
	k := kernelLimits(spec.Limits, spec.Workspace, again)
	if err := b.Limit(k.cgroup(), nil); err != nil {
		return nil, err
	}
	b.Inherit(image.Lock, f.streams, f.orders, f.readyIn, f.last)
	uses := disk.Pass(b)
	pl, err := r.plan(spec, k, b, image.Tree, f, snapshot, disk)
	if err != nil {
		return nil, err
	}
	made, err := r.templateOf(spec)
	if err != nil {
		return nil, err
	}
	program := r.Jars.Programs.New()
	defer program.Free()
	pl.program(program)
	if err := b.Start(ctx, program, uses...); err != nil {
		return nil, explain(err)
	}
	f.passed()
	s := &sandbox{Sandbox: rack.Sandbox{Jar: b.Jar, Born: spec}, again: again, limits: k, template: made}
	if err := b.Write(record{Record: b.Record(), Lifetime: spec.Lifetime, Born: s.template}); err != nil {
		return nil, err
	}
	if err := f.awaitReady(ctx); err != nil {
		return nil, r.explainStart(ctx, s, snapshot != nil, err)
	}
	if err := b.Keep(s); err != nil {
		return nil, err
	}
	return s, nil
}

// openDisk mounts the disk of a workspace. The gofer makes files as root of the jar, and then gives them to the sandbox's user.
func openDisk(w runtime.Workspace, b *jar.Birth, user rootfs.User) (*rack.Disk, error) {
	var root []disk.ID
	if user.UID != jarRoot {
		root = []disk.ID{{Disk: jarRoot, UID: b.IDs.HostUID(jarRoot), GID: b.IDs.HostGID(jarRoot)}}
	}
	return rack.OpenDisk(w, b.IDs, user, root...)
}

// check refuses requests that this runtime does not support, before anything is made.
func (r *Runtime) check(spec runtime.Spec) error {
	if err := rack.User(spec.Root).Check(lastID); err != nil {
		return &runtime.StepError{Step: stepUser, Err: err, Hint: "give the image another USER"}
	}
	if spec.Root.Name != "" {
		return &runtime.StepError{Step: jar.StepImage, Err: fmt.Errorf("%s is an image of another runtime's engine", spec.Root.Name)}
	}
	if err := rack.CheckLayers(spec.Root.Layers); err != nil {
		return err
	}
	return spec.Check(r.capabilities())
}

// plan prepares the settings that the child needs.
func (r *Runtime) plan(spec runtime.Spec, k limits, b *jar.Birth, tree *rootfs.Tree, f *files, snapshot *folder, disk *rack.Disk) (*plan, error) {
	pl := &plan{
		birth: b, workspace: spec.Workspace, asked: spec.Limits, limits: k, lease: spec.Lease, user: rack.User(spec.Root), root: tree,
		image: spec.Root.Dir, runsc: r.runsc.find().path, platform: r.platform, snapshot: snapshot,
		layers: spec.Root.Layers, disk: disk,
	}
	var err error
	if pl.agent, err = r.file(); err != nil {
		return nil, err
	}
	if !rootfs.NoExec(b.Jar.Folder()) {
		if pl.agentLink, err = pl.agent.in(b.Jar.Folder()); err != nil {
			return nil, runtime.FailedStep(jar.StepAgent, err, "")
		}
	}
	if !spec.Workspace.Flushes() {
		if pl.noFlush, err = seccomp.NoFlush(); err != nil {
			return nil, runtime.FailedStep(stepFilter, err, "")
		}
	}
	for _, name := range runtime.Hidden(pl.layers) {
		pl.root = pl.root.Without(name)
	}
	if err := pl.writeBundle(filepath.Join(b.Jar.Folder(), configName)); err != nil {
		return nil, runtime.FailedStep(jar.StepState, err, "")
	}
	lock, err := b.Lock()
	if err != nil {
		return nil, err
	}
	config := wire.KeepConfig{
		StreamFD: int(f.streams.Fd()), OrderFD: int(f.orders.Fd()), ReadyFD: int(f.readyIn.Fd()), LastFD: int(f.last.Fd()),
		Start: pl.startArgs(), PidFile: pidFile, Orders: pl.orders(), Lock: lock,
	}
	if spec.Lifetime != runtime.LifetimeDetached {
		if config.LifelineFD, err = b.Lifeline(); err != nil {
			return nil, err
		}
	}
	if snapshot != nil {
		config.StartFD = int(snapshot.file.Fd())
		b.Inherit(snapshot.file)
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	pl.argument = string(raw)
	return pl, nil
}

// explain adds hints that apply to births of this runtime only.
func explain(err error) error {
	var step *runtime.StepError
	if errors.As(err, &step) && step.Step == stepProgram && step.Err == unix.EACCES {
		step.Hint = programName + " and the folders above it must be open to every user"
	}
	return err
}

// explainStart returns why a keep that runs has no sandbox. restoring means that it was to be restored from a snapshot.
func (r *Runtime) explainStart(ctx context.Context, s *sandbox, restoring bool, err error) error {
	step := &runtime.StepError{Step: stepProgram, Err: err}
	var own *runtime.StepError
	switch {
	case errors.As(err, &own):
		step = own
	case ctx.Err() != nil:
		step.Step, step.Err = jar.StepBirth, context.Cause(ctx)
	case oomKilled(s.usage()):
		step.Hint = "the memory limit is too low for it"
	case errors.Is(err, io.ErrUnexpectedEOF):
		step.Step, step.Hint = jar.StepBirth, jar.KilledHint
	case errors.Is(err, fs.ErrNotExist):
		step.Hint = programName + " is gone"
	case restoring: // e.g. on a machine whose processors lack a feature
		// The errno of a broken connection is left out: a retry would fail in the same way.
		step.Step, step.Err = stepSnapshot, fmt.Errorf("gVisor cannot continue it here: %v", err) //nolint:errorlint // see above
	}
	return step
}
