//go:build linux

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/belljar/belljar/internal/linux/cgroup"
)

// SweepUntraced ends sandboxes of this installation whose files somebody has removed, as cleaners of temporary folders do:
// nobody can find them by name any more, and they would run until their lease is over. Their cgroups know them. Call it
// before the first sandbox is made or claimed. It returns how many it removed.
func (r *Runtime) SweepUntraced(ctx context.Context) (int, error) {
	if r.cgroups == nil {
		return 0, nil // their lease ends them
	}
	groups, err := r.cgroups.List(r.group())
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
	return swept, errors.Join(append(errs, r.ids.Sweep())...)
}

// traced are the names of cgroups that files lead to: those of records, and of sandboxes without a record, which
// [Runtime.Remove] finds by their locks.
func (r *Runtime) traced() (map[string]bool, error) {
	ids, err := r.roster.List()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, id := range ids {
		known[id] = true
		var rec record
		if r.roster.Read(id, &rec) == nil && len(rec.Cgroup) > 0 {
			known[filepath.Base(rec.Cgroup[0].Path)] = true
		}
	}
	return known, nil
}

// sweepGroup kills what is in a cgroup and removes it.
func (r *Runtime) sweepGroup(ctx context.Context, name string) error {
	group, err := r.cgroups.Open(r.group(), name)
	if err != nil {
		return nil // it went by itself
	}
	if killed, err := group.Kill(); err != nil || !killed && populated(group) {
		return fmt.Errorf("end what is in cgroup %s: its lease will: %w", name, errors.Join(err, errors.ErrUnsupported))
	}
	return group.Remove(ctx)
}

// populated says whether processes are in a group.
func populated(group *cgroup.Group) bool {
	return slices.ContainsFunc(group.Folders(), func(f cgroup.Folder) bool {
		list, err := os.ReadFile(filepath.Join(f.Path, "cgroup.procs"))
		return len(list) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
	})
}
