//go:build linux

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// SweepOthers removes what dead sandboxes of other installations have left on this machine: those of a server that was
// uninstalled end by their lease, and nobody of theirs comes to clean up. What lives, or is being made, is not touched. It
// returns how many it removed.
func (r *Runtime) SweepOthers(ctx context.Context) (int, error) {
	all := filepath.Dir(r.state.dir)
	entries, err := os.ReadDir(all)
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
		opts: r.opts, state: state{dir: filepath.Join(filepath.Dir(r.state.dir), installation)}, ids: r.ids, cgroups: r.cgroups,
		boot: r.boot, log: r.log, living: map[string]*sandbox{}, births: map[string]*birth{},
	}
	o.opts.Installation = installation
	return o
}

// sweepDead removes an installation's dead sandboxes, and its folders if that leaves them empty.
func (r *Runtime) sweepDead(ctx context.Context) (int, error) {
	ids, err := r.state.list()
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
		r.cgroups.Sweep(r.opts.Installation)
	}
	os.Remove(r.state.dir) // refused while there is a sandbox in it
	return swept, errors.Join(errs...)
}

// sweepOne removes a sandbox if it is dead: its first process has its lock from the first moment to the last.
func (r *Runtime) sweepOne(ctx context.Context, id string) (bool, error) {
	lock, err := r.state.take(id, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return false, nil
	}
	defer lock.Close()
	if rec, err := r.state.read(id); err == nil {
		pidfd, err := rec.open()
		if err == nil {
			dead := ended(rec.Pid, pidfd, nil, false) // and nobody has reaped it
			unix.Close(pidfd)
			if !dead { // somebody has removed its lock file
				return false, nil
			}
		} else if !errors.Is(err, runtime.ErrNotFound) {
			return false, err
		}
	}
	if err := r.clean(ctx, id); err != nil {
		return false, fmt.Errorf("remove what is left of sandbox %s: %w", id, err)
	}
	return true, nil
}
