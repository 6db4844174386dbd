//go:build linux

package jar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/roster"
)

// Birth is a jar under construction. One goroutine must call its methods, in the order of this file. If it is closed
// before Keep, it leaves nothing.
type Birth struct {
	Jar *Jar         // the jar as far as it is built
	IDs *idmap.Range // nil until they are claimed

	// Mapped runs when the first process has its ids, and the process waits for it before it builds the root; nil for nothing.
	Mapped func(pid int) error

	over      func()
	inherited []int    // descriptors that the first process inherits
	theirs    *os.File // the first process's end of the lifeline
	started   forkexec.Child
	kept      bool
}

// Begin registers a birth, so that [Rack.Remove] can cancel the context that Begin returns.
func (r *Rack) Begin(ctx context.Context, id string) (*Birth, context.Context, error) {
	ctx, over, err := r.begin(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	b := &Birth{Jar: &Jar{rack: r, id: id}, over: over}
	if ctx.Err() != nil {
		b.Close()
		return nil, nil, context.Cause(ctx)
	}
	return b, ctx, nil
}

// ClaimIDs claims host ids that no other jar has.
func (b *Birth) ClaimIDs() error {
	r := b.Jar.rack
	ids, err := r.IDs.Claim()
	if errors.Is(err, idmap.ErrExhausted) {
		err = fmt.Errorf("%w: %w", r.o.Errors.Full, err)
	}
	if err != nil {
		return r.o.Errors.Step(StepUserNS, err, cmp.Or(r.IDs.Hint, idsHint))
	}
	b.IDs, b.Jar.ids = ids, ids
	if !ids.Shared {
		b.Jar.Base = ids.Base()
	}
	b.Inherit(ids.Lock)
	return nil
}

// ClaimFolder makes the jar's folder and takes its lock.
func (b *Birth) ClaimFolder() (err error) {
	j := b.Jar
	if j.lock, err = j.rack.roster.Claim(j.id); err != nil {
		if errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("sandbox %s exists", j.id)
		}
		return j.rack.o.Errors.Step(StepState, err, "")
	}
	b.Inherit(j.lock)
	return nil
}

// Lock returns the text by which the first process shows the jar's lock to processes that cannot read its descriptors. Its last
// argument must be JSON with this text in "lock".
func (b *Birth) Lock() (path string, err error) {
	own, err := roster.InodeOf(b.Jar.lock)
	if err != nil {
		return "", b.Jar.rack.o.Errors.Step(StepState, err, "")
	}
	return own.String(), nil
}

// Inherit leaves files open in the first process; nil files are ignored. Its locks and its lifeline always stay open.
func (b *Birth) Inherit(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			b.inherited = append(b.inherited, int(f.Fd()))
		}
	}
}

// Limit makes the jar's cgroup, with those of the limits that this host can enforce; none if it has no cgroups. owner is the
// owner in [cgroup.Spec].
func (b *Birth) Limit(l cgroup.Limits, owner *cgroup.Owner) (err error) {
	j, host := b.Jar, b.Jar.rack.Cgroups
	if err := j.rack.bounded(); err != nil {
		return err
	}
	if host == nil {
		return nil
	}
	if err := j.rack.crowded(); err != nil {
		return err
	}
	j.Group, err = host.Create(cgroup.Spec{Installation: j.rack.group(), ID: j.id, Limits: host.Enforceable(l), Owner: owner})
	if err != nil {
		return j.rack.o.Errors.Step(StepCgroup, err, doctorHint)
	}
	return nil
}

// tasks returns the files by which the first process enters cgroups.
func (b *Birth) tasks() []int {
	if b.Jar.Group == nil {
		return nil
	}
	return b.Jar.Group.TaskFDs()
}

// ExecDir is [cgroup.Group.ExecDir], which the first process inherits; 0 for none.
func (b *Birth) ExecDir() int {
	if b.Jar.Group == nil || b.Jar.Group.ExecDir() <= 0 {
		return 0
	}
	fd := b.Jar.Group.ExecDir()
	b.inherited = append(b.inherited, fd)
	return fd
}

// Lifeline makes a pipe and returns the end that the first process inherits. Its reader gets end of file when this process ends.
func (b *Birth) Lifeline() (fd int, err error) {
	if b.theirs, b.Jar.lifeline, err = os.Pipe(); err != nil {
		return 0, b.Jar.rack.o.Errors.Step(StepAgent, err, "")
	}
	b.Inherit(b.theirs)
	return int(b.theirs.Fd()), nil
}

// Start forks the first process and returns when it has become the agent, by the program p. uses are descriptors that p needs in
// addition to those that it inherits.
func (b *Birth) Start(ctx context.Context, p *forkexec.Program, uses ...int) error {
	errs := b.Jar.rack.o.Errors
	if _, err := b.Jar.rack.Agent.File(); err != nil {
		return errs.Step(StepAgent, err, "")
	}
	only := slices.Concat([]int{int(b.Jar.rack.null.Fd()), b.Jar.rack.Agent.fd()}, b.tasks(), b.inherited, uses)
	var unmapped, failed error
	options := forkexec.Options{Flags: Namespaces, Only: only, Owner: b.IDs.Owner, Sync: func(pid int) error {
		// Write the maps as the namespace's owner, who has all rights in it, whatever rights we have in ours.
		if unmapped = forkexec.As(b.IDs.Owner, func() error { return b.IDs.Write(pid) }); unmapped != nil {
			return unmapped
		}
		if b.Mapped != nil {
			if failed = b.Mapped(pid); failed != nil {
				return failed
			}
		}
		return b.Jar.rack.rescore(pid)
	}}
	if b.Jar.Group != nil {
		options.Cgroup = b.Jar.Group.FD()
	}
	child, err := p.StartContext(ctx, options)
	if unmapped != nil {
		return errs.Step(StepUserNS, unmapped, map[idmap.Mode]string{idmap.ModeSub: helperHint}[b.IDs.Mode])
	}
	if failed != nil {
		return failed
	}
	if err != nil {
		return errs.explain(ctx, err)
	}
	b.started, b.Jar.Pid = child, child.Pid
	return nil
}

// Record returns the data that finds the jar again.
func (b *Birth) Record() Record {
	rec := Record{
		Process: roster.Process{Pid: b.started.Pid, StartTime: b.started.StartTime, BootID: b.Jar.rack.boot},
		IDBase:  b.Jar.Base,
	}
	if b.Jar.Group != nil {
		rec.Cgroup = b.Jar.Group.Folders()
	}
	return rec
}

// Write writes the jar's record, which must contain [Birth.Record]. Without a record the jar is half-made, and Remove and
// Sweep find it by its lock.
func (b *Birth) Write(record any) error {
	if err := b.Jar.rack.roster.Write(b.Jar.id, record); err != nil {
		return b.Jar.rack.o.Errors.Step(StepState, err, "")
	}
	return nil
}

// Keep ends the birth: the jar is now alive, and box is its runtime's part.
func (b *Birth) Keep(box Box) error {
	b.Jar.box = box
	if err := b.Jar.watch(b.started.PidFD, true); err != nil {
		return b.Jar.rack.o.Errors.Step(StepAgent, err, "")
	}
	b.kept = true
	b.Jar.rack.remember(b.Jar)
	return nil
}

// Close ends the birth and removes all its parts, unless the jar was kept.
func (b *Birth) Close() {
	if b.theirs != nil {
		b.theirs.Close()
	}
	if b.Jar.Group != nil {
		b.Jar.Group.CloseEntry()
	}
	if !b.kept {
		b.undo()
	}
	b.over()
}

// undo kills the processes and removes all other parts in reverse order.
func (b *Birth) undo() {
	j := b.Jar
	if j.lifeline != nil {
		j.lifeline.Close()
	}
	if b.started.Pid > 0 {
		kill(b.started.PidFD)
	}
	if j.Group != nil {
		j.Group.Remove(context.Background())
	}
	if j.lock != nil {
		j.rack.roster.Forget(j.id)
		j.lock.Close()
	}
	if j.ids != nil {
		j.ids.Release()
	}
}

// kill kills a child that never became a jar's first process, and closes the pidfd.
func kill(pidfd int) {
	unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	for {
		if err := unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED, nil); err != unix.EINTR {
			break
		}
	}
	unix.Close(pidfd)
}

// errRemoved ends a birth whose jar is removed concurrently.
var errRemoved = errors.New("the sandbox was removed while it was made")

// making is a birth or claim in progress.
type making struct {
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when it has ended and, if it failed, left nothing
}

// begin registers a birth or a claim. over ends the registration.
func (r *Rack) begin(ctx context.Context, id string) (_ context.Context, over func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	m := &making{cancel: cancel, over: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.births[id] != nil {
		cancel(nil)
		return nil, nil, r.o.Errors.Step(StepState, fmt.Errorf("sandbox %s exists", id), "")
	}
	r.births[id] = m
	return ctx, func() {
		r.mu.Lock()
		delete(r.births, id)
		r.mu.Unlock()
		cancel(nil)
		close(m.over)
	}, nil
}

// cancelBirth cancels a birth or claim of id in this process and waits for its end.
func (r *Rack) cancelBirth(ctx context.Context, id string) error {
	r.mu.Lock()
	m := r.births[id]
	r.mu.Unlock()
	if m == nil {
		return nil
	}
	m.cancel(errRemoved)
	select {
	case <-m.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
