//go:build linux

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

// agentConfig is what the agent is told; it is guest.Config, which this package must not import.
type agentConfig struct {
	ListenFD   int    `json:"listen_fd"`
	LifelineFD int    `json:"lifeline_fd,omitempty"`
	CgroupFD   int    `json:"cgroup_fd,omitempty"`
	LeaseMS    int64  `json:"lease_ms,omitempty"`
	Workspace  string `json:"workspace"`
	ExecFilter []byte `json:"exec_filter"`
	Init       bool   `json:"init"`
	// Lock tells the sandbox's lock file to whoever may read the agent's arguments and not its descriptors; the agent
	// itself has no use for it.
	Lock string `json:"lock"`
}

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

	ids, err := r.ids.Claim()
	if errors.Is(err, idmap.ErrExhausted) {
		err = fmt.Errorf("%w: %w", runtime.ErrFull, err)
	}
	if err != nil {
		return nil, &runtime.StepError{Step: stepUserNS, Err: err, Hint: "belljar doctor tells which ids this host offers"}
	}
	undo.add(func() { ids.Release() })

	user := userOf(spec.Root)
	settle(ids, user)
	image, err := r.hold(ctx, spec.Root)
	if err != nil {
		return nil, &runtime.StepError{Step: stepImage, Err: err}
	}
	defer image.Close()
	lock, listen, err := r.prepare(spec)
	if err != nil {
		return nil, err
	}
	undo.add(func() { r.state.forget(spec.ID); lock.Close() })
	defer listen.Close()
	k := kernelLimits(spec.Limits, spec.Workspace)
	group, err := r.group(spec, k, ids)
	if err != nil {
		return nil, err
	}
	if group != nil {
		undo.add(func() { group.Remove(context.Background()) })
		defer group.CloseEntry()
	}
	s := &sandbox{
		rt: r, id: spec.ID, lock: lock, ids: ids, group: group,
		pids: min(spec.Limits.Pids, spec.Limits.NProc), born: spec,
	}
	pl, files, err := r.plan(spec, k, ids, group, listen, lock, image)
	defer files.close()
	if err != nil {
		return nil, err
	}
	program, only := r.programs.New(), pl.descriptors()
	defer program.Free()
	pl.program(program)
	if r.edit != nil {
		only = append(only, r.edit(program)...)
	}
	options := forkexec.Options{Flags: cloneFlags, Only: only, Sync: func(pid int) error {
		if err := ids.Write(pid); err != nil {
			return &runtime.StepError{Step: stepUserNS, Err: err}
		}
		return nil
	}}
	if group != nil {
		options.Cgroup = group.FD()
	}
	child, err := program.StartContext(ctx, options)
	if err != nil {
		return nil, explain(ctx, err)
	}
	undo.add(func() { s.kill(child.PidFD) })
	// Only now: while the root is built, its two processes need all the processors that there are. Without a record it
	// is a half-made sandbox, which Remove and Sweep find by its lock.
	if err := r.record(spec, ids, group, child); err != nil {
		return nil, &runtime.StepError{Step: stepState, Err: err}
	}
	if spec.Lifetime != runtime.LifetimeDetached {
		s.lifeline = files.take(&files.lifeline[1])
	}
	if err := s.watch(child.Pid, child.PidFD, true); err != nil {
		return nil, &runtime.StepError{Step: stepAgent, Err: err}
	}
	r.remember(s)
	undo = nil
	return s, nil
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

// prepare makes a sandbox's folder, takes its lock and listens on its socket.
func (r *Runtime) prepare(spec runtime.Spec) (lock, listen *os.File, err error) {
	if lock, err = r.state.claim(spec.ID); err != nil {
		return nil, nil, &runtime.StepError{Step: stepState, Err: err}
	}
	if listen, err = listenUnix(r.socket(spec.ID)); err != nil {
		r.state.forget(spec.ID)
		lock.Close()
		return nil, nil, &runtime.StepError{Step: stepState, Err: err}
	}
	return lock, listen, nil
}

// socket is where a sandbox's agent listens.
func (r *Runtime) socket(id string) string { return filepath.Join(r.state.folder(id), agentSocket) }

// check refuses what this runtime cannot do, before anything is made.
func (r *Runtime) check(spec runtime.Spec) error {
	if !belljar.ValidID(spec.ID) {
		return fmt.Errorf("%q is not a sandbox id", spec.ID)
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
	if err := checkUser(spec.Root); err != nil {
		return err
	}
	caps := r.capabilities()
	for _, name := range spec.Require {
		if p := caps.Protection(name); !p.Enforced {
			return &runtime.StepError{
				Step: name, Err: fmt.Errorf("%s cannot be enforced here", name), Hint: p.Hint,
			}
		}
	}
	return nil
}

// record writes down what finds a sandbox again.
func (r *Runtime) record(spec runtime.Spec, ids *idmap.Range, group *cgroup.Group, child forkexec.Child) error {
	rec := record{Pid: child.Pid, StartTime: child.StartTime, BootID: r.boot, Lifetime: spec.Lifetime, Pids: min(spec.Limits.Pids, spec.Limits.NProc)}
	if group != nil {
		rec.Cgroup = group.Folders()
	}
	if !ids.Shared {
		rec.IDBase = ids.Base()
	}
	return r.state.write(spec.ID, rec)
}

// files are the descriptors that live only while a sandbox is made.
type files struct{ lifeline [2]int }

func (f *files) close() {
	for _, fd := range f.lifeline {
		if fd > 0 {
			unix.Close(fd)
		}
	}
}

// take hands a descriptor over to somebody who will close it.
func (f *files) take(fd *int) *os.File {
	file := os.NewFile(uintptr(*fd), "lifeline")
	*fd = 0
	return file
}

func (r *Runtime) plan(spec runtime.Spec, k limits, ids *idmap.Range, group *cgroup.Group, listen, lock *os.File, image *rootfs.Held) (*plan, *files, error) {
	fds := &files{}
	filter, err := r.filter(ids.Shared)
	if err != nil {
		return nil, fds, &runtime.StepError{Step: stepSeccomp, Err: err}
	}
	pl := &plan{
		workspace: spec.Workspace, limits: k, ids: ids, null: int(r.null.Fd()),
		agent: int(r.agent.Fd()), filter: filter.Agent, landlock: r.abi, lastCap: r.lastCap,
		root: image.Tree, image: spec.Root.Dir != "", user: userOf(spec.Root),
		keepFDs: []int{int(listen.Fd()), int(lock.Fd())},
	}
	if image.Lock != nil {
		pl.keepFDs = append(pl.keepFDs, int(image.Lock.Fd()))
	}
	own, err := inodeOf(lock)
	if err != nil {
		return nil, fds, &runtime.StepError{Step: stepState, Err: err}
	}
	config := agentConfig{
		ListenFD: int(listen.Fd()), LeaseMS: spec.Lease.Milliseconds(), Workspace: belljar.WorkspaceDir,
		ExecFilter: filter.Exec.Bytes(), Init: true, Lock: own.String(),
	}
	if ids.Lock != nil {
		pl.keepFDs = append(pl.keepFDs, int(ids.Lock.Fd()))
	}
	if spec.Lifetime != runtime.LifetimeDetached {
		if err := unix.Pipe2(fds.lifeline[:], unix.O_CLOEXEC); err != nil {
			return nil, fds, &runtime.StepError{Step: stepAgent, Err: err}
		}
		config.LifelineFD = fds.lifeline[0]
		pl.keepFDs = append(pl.keepFDs, fds.lifeline[0])
	}
	if group != nil {
		pl.taskFDs = group.TaskFDs()
		if fd := group.ExecDir(); fd > 0 {
			config.CgroupFD, pl.execDir = fd, fd
			pl.keepFDs = append(pl.keepFDs, fd)
		}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fds, err
	}
	pl.config = string(raw)
	return pl, fds, nil
}

// listenUnix makes the socket that the agent will accept on.
func listenUnix(path string) (*os.File, error) {
	name, done, err := socketName(path)
	if err != nil {
		return nil, err
	}
	defer done()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "agent socket")
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		f.Close()
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	if err := unix.Listen(fd, 1024); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	name, done, err := socketName(path)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", name)
}

// socketName is a name for the socket at path that fits into an address: 107 bytes (unix(7)). A longer one goes through
// its folder's descriptor, which done closes.
func socketName(path string) (name string, done func(), err error) {
	const longest = 107
	if len(path) <= longest {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path), func() { dir.Close() }, nil
}

// explain turns the child's failure into a step with a hint.
func explain(ctx context.Context, err error) error {
	var step *runtime.StepError
	if errors.As(err, &step) {
		return err
	}
	var fe *forkexec.Error
	switch {
	case errors.As(err, &fe) && fe.Errno == gateBroken:
		return &runtime.StepError{Step: fe.Step, Err: fmt.Errorf("the other process of the birth has died: %w", fe.Errno), Hint: killedHint}
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
	case e.Step == "clone" || e.Step == stepUserNS || e.Step == stepInner:
		return "this host forbids user namespaces: allow kernel.unprivileged_userns_clone, or load the AppArmor profile in deploy/apparmor, or in a container allow the clone and unshare system calls"
	case e.Step == stepNetwork && e.Errno == unix.ENOENT:
		return killedHint // the second, between making its namespace and our looking for it
	case e.Step == stepProc && e.Errno == unix.EPERM:
		return "an outer container masks /proc: start it with --security-opt systempaths=unconfined"
	case e.Errno == unix.ENOSYS:
		return "Linux 5.12 or newer is needed, and an outer container must not filter the mount system calls"
	case e.Errno == unix.EPERM:
		return "an outer container's seccomp or AppArmor profile forbids this: belljar doctor prints the flags that help"
	}
	return ""
}
