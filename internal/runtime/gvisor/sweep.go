//go:build linux

package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/roster"
	"github.com/belljar/belljar/internal/runtime"
)

// Sweep removes what sandboxes of this installation have left behind whose creators and keeps are gone, and half-made
// ones whose creators are: nobody could attach to them. It returns how many it removed.
func (r *Runtime) Sweep(ctx context.Context) (int, error) {
	ids, err := r.roster.List()
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
	lock, err := r.roster.Take(id, unix.LOCK_EX|unix.LOCK_NB)
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
	var rec record
	err := r.roster.Read(id, &rec)
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
		errs = append(errs, r.cgroups.Remove(ctx, r.group(), id))
	}
	if err := errors.Join(errs...); err != nil {
		return err // what is left is found again by the traces
	}
	return r.roster.Forget(id)
}

// keepProgram is how the keeps of a roster are known among processes.
func keepProgram() roster.Program {
	return roster.Program{Prefix: "/memfd:" + agentName, Told: func(args []string) string {
		if len(args) < 3 || args[0] != agentName || args[1] != keepCommand {
			return ""
		}
		var config keepConfig
		if json.Unmarshal([]byte(args[2]), &config) != nil {
			return ""
		}
		return config.Lock
	}}
}

// errUnseen says that a lock is held, and that we may not see by whom.
var errUnseen = errors.New("its lock is held by a process that cannot be found")

// endHalfMade kills what lives of a sandbox that cannot be attached to, and returns when it is gone.
func (r *Runtime) endHalfMade(ctx context.Context, id string) error {
	const looks, pause = 5, 10 * time.Millisecond
	for range looks {
		lock, err := r.roster.Take(id, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return lock.Close() // nobody lives
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		found, err := r.roster.Holders(id, keepProgram())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(found, func(h roster.Holder) bool { return h.First })
		if i >= 0 {
			return r.end(ctx, id, found[i])
		}
		if len(found) > 0 {
			return nil // a creator, which removes what is its own
		}
		// It has ended since, or is about to close what it was forked with.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return errUnseen
}

// end destroys the sandbox whose keep, or what was to become it, holds the lock.
func (r *Runtime) end(ctx context.Context, id string, keep roster.Holder) error {
	pidfd, err := unix.PidfdOpen(keep.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil // it has ended
	}
	// Again, now that the pid cannot become another's.
	found, err := r.roster.Holders(id, keepProgram())
	if err != nil || !slices.Contains(found, keep) {
		unix.Close(pidfd)
		return err
	}
	s := &sandbox{rt: r, id: id}
	if err := s.watch(keep.Pid, pidfd, false); err != nil {
		unix.Close(pidfd)
		return err
	}
	return s.Destroy(ctx)
}

// abandoned says whether a sandbox whose lock is held is half-made and its creator gone.
func (r *Runtime) abandoned(id string) bool {
	var rec record
	if r.roster.Read(id, &rec) == nil {
		return false // without a look at every process
	}
	found, err := r.roster.Holders(id, keepProgram())
	if err != nil || len(found) == 0 || slices.ContainsFunc(found, func(h roster.Holder) bool { return !h.First }) {
		return false
	}
	return r.roster.Read(id, &rec) != nil // last: its creator may have written it, and ended, before we looked
}

// SweepOthers removes what dead sandboxes of other installations have left on this machine: those of a server that was
// uninstalled end by their lease, and nobody of theirs comes to clean up. What lives, or is being made, is not touched. It
// returns how many it removed.
func (r *Runtime) SweepOthers(ctx context.Context) (int, error) {
	entries, err := os.ReadDir(filepath.Dir(r.roster.Dir()))
	if err != nil {
		return 0, fmt.Errorf("look for other installations: %w", err)
	}
	swept := 0
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !belljar.ValidID(e.Name()) || e.Name() == r.opts.Installation {
			continue
		}
		n, err := r.of(e.Name()).sweepDead(ctx)
		swept += n
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return swept, errors.Join(errs...)
}

// of is this runtime as another installation's, for looking at what that has left.
func (r *Runtime) of(installation string) *Runtime {
	o := &Runtime{
		opts: r.opts, roster: r.roster.Beside(installation), ids: r.ids, cgroups: r.cgroups,
		boot: r.boot, log: r.log, living: map[string]*sandbox{}, births: map[string]*birth{},
	}
	o.opts.Installation = installation
	return o
}

// sweepDead removes an installation's dead sandboxes, and its folders if that leaves them empty.
func (r *Runtime) sweepDead(ctx context.Context) (int, error) {
	ids, err := r.roster.List()
	if err != nil {
		return 0, err
	}
	swept := 0
	var errs []error
	for _, id := range ids {
		if ctx.Err() != nil {
			return swept, errors.Join(append(errs, ctx.Err())...)
		}
		done, err := r.sweepOne(ctx, id)
		if done {
			swept++
		}
		errs = append(errs, err)
	}
	if r.cgroups != nil {
		r.cgroups.Sweep(r.group())
	}
	r.tidy()
	return swept, errors.Join(errs...)
}

// sweepOne removes a sandbox if it is dead: its first process has its lock from the first moment to the last.
func (r *Runtime) sweepOne(ctx context.Context, id string) (bool, error) {
	lock, err := r.roster.Take(id, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return false, nil
	}
	defer lock.Close()
	var rec record
	if r.roster.Read(id, &rec) == nil {
		if pidfd, err := rec.Open(); err == nil {
			dead := roster.Ended(pidfd) // and nobody has reaped it
			unix.Close(pidfd)
			if !dead { // somebody has removed its lock file
				return false, nil
			}
		}
	}
	if err := r.clean(ctx, id); err != nil {
		return false, fmt.Errorf("remove what is left of sandbox %s: %w", id, err)
	}
	return true, nil
}

// Test implements [runtime.Tester]. Nothing less than a sandbox tells whether a host allows every step.
func (r *Runtime) Test(ctx context.Context) (runtime.Capabilities, error) {
	caps := r.capabilities()
	if !caps.Available {
		return caps, nil
	}
	limits := belljar.DefaultLimits()
	box, err := r.Create(ctx, runtime.Spec{
		ID: belljar.NewID(), Root: runtime.Root{Ref: runtime.HostRef}, Limits: limits,
		Workspace: runtime.Workspace{Bytes: int64(limits.WorkspaceMB) << 20, Inodes: int64(limits.Inodes), Medium: runtime.MediumMemory},
		Lifetime:  runtime.LifetimeCreator,
	})
	var step *runtime.StepError
	switch {
	case err != nil && ctx.Err() != nil:
		return caps, err // which says nothing of the host
	case errors.As(err, &step):
		caps.Available = false
		caps.Reasons = append(caps.Reasons, runtime.Reason{Code: reasonCode(step), Step: step.Step, Detail: step.Err.Error(), Hint: step.Hint})
		return caps, nil
	case err != nil:
		return caps, err
	}
	return caps, box.Destroy(ctx)
}

func reasonCode(e *runtime.StepError) string {
	if errors.Is(e.Err, unix.EPERM) || errors.Is(e.Err, unix.EACCES) {
		return "host_permission_denied"
	}
	return "host_prerequisite_missing"
}
