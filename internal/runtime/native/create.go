//go:build linux

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/seccomp"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// agentSocket is the name of the agent's socket in its sandbox's folder.
const agentSocket = "agent.sock"

// Create implements [runtime.Runtime].
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
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
	if r.NoPTYs && b.IDs.Shared {
		return nil, &runtime.StepError{
			Step: jar.StepDev, Err: errors.New("programs have the agent's user id, so nothing keeps them from making pseudo-terminals"), Hint: r.Jars.IDs.Hint,
		}
	}
	user := rack.User(spec.Root)
	settle(b.IDs, user)
	image, err := r.Jars.OpenImage(ctx, spec.Root.Dir, spec.Root.Lock, user)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	disk, err := rack.OpenDisk(spec.Workspace, b.IDs, user)
	if err != nil {
		return nil, err
	}
	defer disk.Close()
	if err := b.ClaimFolder(); err != nil {
		return nil, err
	}
	listen, err := b.Listen(agentSocket)
	if err != nil {
		return nil, err
	}
	defer listen.Close()
	locks, err := os.Open(os.DevNull) // reserves a descriptor number for the list of locks, which is opened inside
	if err != nil {
		return nil, runtime.FailedStep(jar.StepProc, err, "")
	}
	defer locks.Close()
	k := kernelLimits(spec.Limits)
	if err := b.Limit(k.cgroup(), agentOwner(b.IDs)); err != nil {
		return nil, err
	}
	watched := make(chan error, 1) // during the birth, because a warden takes a while to start
	go func() { watched <- r.watch(b.Jar.Group, k.memory, spec.Lifetime) }()
	b.Inherit(listen, image.Lock, locks)
	if b.Mapped, err = r.layBelow(spec, b.IDs, user); err != nil {
		return nil, err
	}
	pl, err := r.plan(spec, k, b, listen, locks, image.Tree)
	if err != nil {
		return nil, err
	}
	pl.disk = disk
	uses := disk.Pass(b)
	program := r.Jars.Programs.New()
	defer program.Free()
	pl.program(program)
	if r.edit != nil {
		uses = append(uses, r.edit(program)...)
	}
	if err := b.Start(ctx, program, uses...); err != nil {
		return nil, explain(err)
	}
	s := &sandbox{
		Sandbox: rack.Sandbox{Jar: b.Jar, Born: spec}, runtime: r,
		rec: record{Record: b.Record(), Lifetime: spec.Lifetime, Pids: programs(spec.Limits), Memory: k.memory},
	}
	// Not earlier: while the root is built, its two processes need all processors.
	if err := b.Write(s.rec); err != nil {
		return nil, err
	}
	if err := <-watched; err != nil {
		return nil, runtime.FailedStep(jar.StepCgroup, err, "")
	}
	if err := b.Keep(s); err != nil {
		return nil, err
	}
	return s, nil
}

// check refuses requests that this runtime does not support, before anything is made.
func (r *Runtime) check(spec runtime.Spec) error {
	if err := spec.Check(r.capabilities()); err != nil {
		return err
	}
	if err := rack.User(spec.Root).Check(lastID); err != nil {
		return &runtime.StepError{Step: jar.StepUserNS, Err: err, Hint: "give the image another USER"}
	}
	return rack.CheckLayers(spec.Root.Layers)
}

// record has the data that finds a sandbox again.
type record struct {
	jar.Record
	Lifetime runtime.Lifetime `json:"lifetime"`
	Pids     int              `json:"pids"`   // limit of processes of its programs
	Memory   int64            `json:"memory"` // limit of bytes of its programs
}

// hintNodes is the remedy if root cannot make nodes.
const hintNodes = "let belljar make device nodes in " + rootfs.OwnDevices + ": it needs CAP_MKNOD, and a /dev that is writable and not mounted nodev"

// devices returns the folder with the nodes of /dev. It makes them at the first birth, and again if they were removed.
func (r *Runtime) devices() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range rootfs.Devices() {
		if unix.Access(r.nodes+"/"+name, unix.F_OK) != nil {
			r.nodes = rootfs.Nodes(r.ownNodes)
			if os.Geteuid() == 0 && r.nodes != r.ownNodes {
				r.log.Warn("device nodes of sandboxes are the host's: locks and watches on them reach the host's programs", "hint", hintNodes)
			}
			break
		}
	}
	return r.nodes
}

// plan prepares the settings that the child needs.
func (r *Runtime) plan(spec runtime.Spec, k limits, b *jar.Birth, listen, locks *os.File, tree *rootfs.Tree) (*plan, error) {
	filter, err := r.filter(seccomp.Options{SharedUID: b.IDs.Shared, Disk: spec.Workspace.Flushes(), Reader: spec.Workspace.ReadOnly})
	if err != nil {
		return nil, runtime.FailedStep(stepSeccomp, err, "")
	}
	lock, err := b.Lock()
	if err != nil {
		return nil, err
	}
	pl := &plan{
		birth: b, workspace: spec.Workspace, limits: k, ids: b.IDs, execDir: b.ExecDir(), filter: filter.Agent,
		landlock: r.abi, lastCap: r.lastCap, root: tree, image: spec.Root.Dir != "", user: rack.User(spec.Root),
		locks: int(locks.Fd()), devices: r.devices(), noPTYs: r.NoPTYs,
	}
	pl.layers = spec.Root.Layers
	for _, name := range runtime.Hidden(pl.layers) {
		pl.root = pl.root.Without(name)
	}
	if spec.Workspace.Exec && spec.Workspace.Medium != runtime.MediumDisk {
		pl.goCache = spec.Root.GoCache
	}
	config := wire.AgentConfig{
		ListenFD: int(listen.Fd()), CgroupFD: pl.execDir, LocksFD: pl.locks, LeaseMS: spec.Lease.Milliseconds(), Workspace: belljar.WorkspaceDir,
		ExecFilter: filter.Exec.Bytes(), Init: true, Lock: lock, Relay: !r.unrelayed,
	}
	if spec.Lifetime != runtime.LifetimeDetached {
		if config.LifelineFD, err = b.Lifeline(); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	pl.config = string(raw)
	return pl, nil
}

// explain adds hints that apply to births of this runtime only.
func explain(err error) error {
	var step *runtime.StepError
	if !errors.As(err, &step) {
		return err
	}
	switch {
	case step.Err == gateBroken:
		step.Err, step.Hint = fmt.Errorf("the other process of the birth has died: %w", gateBroken), jar.KilledHint
	case step.Step == stepNetwork && step.Err == unix.ENOENT: // the second died between making its namespace and our opening it
		step.Hint = jar.KilledHint
	case step.Step == stepSettings && step.Err == unix.ENOENT:
		step.Hint = "belljar needs /proc/sys: mount /proc without subset=pid"
	}
	return step
}
