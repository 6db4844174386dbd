//go:build linux

package jar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/roster"
)

// Sweep removes the remains of this installation's jars whose creators and first processes are gone. It also removes
// half-made jars whose creators are gone, to which no process could attach. It returns how many it removed.
func (r *Rack) Sweep(ctx context.Context) (int, error) {
	swept, err := r.each(ctx, r.sweep)
	return swept, errors.Join(err, r.IDs.Sweep())
}

// each calls a function for every jar and counts those for which it returned true.
func (r *Rack) each(ctx context.Context, do func(ctx context.Context, id string) (bool, error)) (n int, err error) {
	ids, err := r.List()
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, id := range ids {
		done, err := do(ctx, id)
		if done {
			n++
		}
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// sweep removes one jar, unless it is in use.
func (r *Rack) sweep(ctx context.Context, id string) (bool, error) {
	lock, err := r.roster.Take(id, unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		defer lock.Close()
		// A living jar holds the lock, unless its file was removed.
		if j, attachErr := r.attach(id); attachErr == nil {
			err = j.Destroy(ctx)
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

// SweepOthers removes the remains of dead jars of other installations on this machine: the jars of an uninstalled server end
// by their lease, and no daemon cleans up after them. Jars that live or are being made are not touched. It returns how many
// it removed.
func (r *Rack) SweepOthers(ctx context.Context) (int, error) {
	entries, err := os.ReadDir(filepath.Dir(r.Dir()))
	if err != nil {
		return 0, fmt.Errorf("look for other installations: %w", err)
	}
	swept := 0
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		if !e.IsDir() || !r.o.ValidID(e.Name()) || e.Name() == r.o.Installation {
			continue
		}
		other := r.withInstallation(e.Name())
		n, err := other.each(ctx, other.sweepDead)
		other.tidy()
		swept += n
		errs = append(errs, err)
	}
	return swept, errors.Join(append(errs, ctx.Err())...)
}

// sweepDead removes a jar if it is dead: the first process of a living one has its lock from its first moment to its last.
func (r *Rack) sweepDead(ctx context.Context, id string) (bool, error) {
	if ctx.Err() != nil {
		return false, nil
	}
	lock, err := r.roster.Take(id, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return false, nil
	}
	defer lock.Close()
	var rec Record
	if r.roster.Read(id, &rec) == nil {
		if pidfd, err := rec.Open(); err == nil {
			dead := roster.Ended(pidfd) // and was not reaped
			unix.Close(pidfd)
			if !dead { // its lock file was removed
				return false, nil
			}
		}
	}
	if err := r.clean(ctx, id); err != nil {
		return false, fmt.Errorf("remove the remains of sandbox %s: %w", id, err)
	}
	return true, nil
}

// SweepUntraced ends jars of this installation whose files were removed, e.g. by a cleaner of temporary folders. No process
// can find them by name, and they would run until their lease ends. Their cgroups identify them. Call it before the first jar
// is made or claimed. It returns how many it removed.
func (r *Rack) SweepUntraced(ctx context.Context) (int, error) {
	if r.Cgroups == nil {
		return 0, nil // their lease ends them
	}
	groups, err := r.Cgroups.List(r.group())
	if err != nil {
		return 0, err
	}
	known, err := r.traced()
	if err != nil {
		return 0, err
	}
	groups = slices.DeleteFunc(groups, func(name string) bool { return known[name] })
	if len(groups) == 0 {
		return 0, nil
	}
	swept := 0
	var errs []error
	for _, name := range groups {
		err := r.sweepGroup(ctx, name)
		if err == nil {
			swept++
		}
		errs = append(errs, err)
	}
	return swept, errors.Join(append(errs, r.IDs.Sweep())...)
}

// traced returns the names of cgroups that still have files: those in records, and those of jars without a record, which
// [Rack.Remove] finds by their locks.
func (r *Rack) traced() (map[string]bool, error) {
	ids, err := r.List()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, id := range ids {
		known[id] = true
		var rec Record
		if r.roster.Read(id, &rec) == nil {
			known[rec.group()] = true
		}
	}
	return known, nil
}

// sweepGroup kills the processes of a cgroup and removes it.
func (r *Rack) sweepGroup(ctx context.Context, name string) error {
	group, err := r.Cgroups.Open(r.group(), name)
	if err != nil {
		return nil // it is already gone
	}
	if killed, err := group.Kill(); err != nil || !killed && populated(group) {
		return fmt.Errorf("end the processes of cgroup %s, which their lease will end: %w", name, errors.Join(err, errors.ErrUnsupported))
	}
	return group.Remove(ctx)
}

// populated reports whether processes are in a group.
func populated(group *cgroup.Group) bool {
	return slices.ContainsFunc(group.Folders(), func(f cgroup.Folder) bool {
		list, err := os.ReadFile(filepath.Join(f.Path, "cgroup.procs"))
		return len(list) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
	})
}
