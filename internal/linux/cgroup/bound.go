//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Bound limits all groups of an installation together. The zero value is no limit.
type Bound struct {
	Memory int64 // bytes
	Pids   int64 // processes and threads
	// Shared means that other processes may set the same installation's bound: while it has groups, its bound is only raised.
	Shared bool
}

// Bind sets the bound of installations, in force when their next group is made. A bound covers every group below the first folder of an
// installation's name: serve-1/native and serve-1/gvisor have one bound.
func (h *Host) Bind(b Bound) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bound = b
}

// Ceiling returns the memory available to groups, in bytes: the machine's, or the lowest limit of the cgroups above them; 0 if unknown.
func (h *Host) Ceiling() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	least := int64(uint64(info.Totalram) * uint64(info.Unit))
	if hi := h.with(Memory); hi != nil {
		for dir := hi.parent; strings.HasPrefix(dir, hi.mount); dir = filepath.Dir(dir) {
			if is, ok := memoryLimit(hi.version, dir); ok {
				least = min(least, is)
			}
		}
	}
	return least
}

// with is the hierarchy that has a controller; nil without one.
func (h *Host) with(controller string) *hierarchy {
	i := slices.IndexFunc(h.hierarchies, func(hi *hierarchy) bool { return slices.Contains(hi.controllers, controller) })
	if i < 0 {
		return nil
	}
	return h.hierarchies[i]
}

// top returns the folder that has an installation's bound.
func (hi *hierarchy) top(installation string) string {
	first, _, _ := strings.Cut(installation, "/")
	return filepath.Join(hi.parent, folderName, first)
}

// memoryLimit is a folder's own limit, if it has one.
func memoryLimit(version int, dir string) (int64, bool) {
	const none = 1 << 62 // v1 reports less than a page below 1 << 63 instead of no limit
	n, err := readInt(dir, map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[version])
	return n, err == nil && n < none
}

// socketPart is the part of an installation's bound that the sockets of all its groups may buffer on v1. A higher amount would put the
// sockets of the whole host under memory pressure (net.ipv4.tcp_mem).
const socketPart = 20

// bind sets the bound of the installation whose top folder dir is. The caller holds the lock.
func (h *Host) bind(hi *hierarchy, dir string) error {
	if err := h.bindPids(hi, dir); err != nil {
		return err
	}
	want := pages(h.bound.Memory)
	if want == 0 || !slices.Contains(hi.controllers, Memory) {
		return nil
	}
	if err := h.kernel.sockets(hi.version, dir, max(want/socketPart, socketBytes)); err != nil && !errors.Is(err, unix.EBUSY) {
		return err
	}
	is, has := memoryLimit(hi.version, dir)
	switch {
	case has && is == want:
		return nil
	case has && is < want:
		if hi.version == 1 {
			return h.kernel.raise(dir, want)
		}
	case h.keeps(hi, dir, want):
		return nil
	}
	err := h.kernel.memory(hi.version, dir, want)
	if errors.Is(err, unix.EBUSY) {
		return nil // more than that is already in use, and v1's kernel refuses the bound
	}
	return err
}

// keeps reports whether a used installation must keep its higher bound: other processes share it, or the kernel would kill immediately.
func (h *Host) keeps(hi *hierarchy, dir string, want int64) bool {
	if !h.inhabited(dir) {
		return false
	}
	used, err := readInt(dir, map[int]string{1: "memory.usage_in_bytes", 2: "memory.current"}[hi.version])
	return h.bound.Shared || err != nil || used > want/10*9
}

// inhabited reports whether there are groups below an installation's top folder, in the folders of its kinds.
func (h *Host) inhabited(dir string) bool {
	kinds, err := children(dir)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(kinds, func(kind string) bool {
		groups, err := children(filepath.Join(dir, kind))
		return err != nil || len(groups) > 0
	})
}

// Both are below the defaults of 1024 and 100: if CPU time is short, the host's own programs come first.
const (
	sharesV1 = "512"
	weightV2 = "50"
)

// yield gives Belljar's groups a lower CPU weight than the host's own, if the kernel supports weights.
func (h *Host) yield(hi *hierarchy, dir string) error {
	if !slices.Contains(hi.controllers, CPU) {
		return nil
	}
	name, value := "cpu.shares", sharesV1
	if hi.version == 2 {
		name, value = "cpu.weight", weightV2
	}
	if err := h.kernel.write(filepath.Join(dir, name), value); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "write", Path: filepath.Join(dir, name), Err: err}
	}
	return nil
}

// Installation is an installation's memory usage and bound, over all its groups.
type Installation struct {
	version int
	dir     string
}

// Installation returns an installation, with or without groups; false if memory cannot be limited.
func (h *Host) Installation(installation string) (*Installation, bool) {
	hi := h.with(Memory)
	if hi == nil {
		return nil, false
	}
	return &Installation{version: hi.version, dir: hi.top(installation)}, true
}

// Prepare makes an installation's folders and sets its bound.
func (h *Host) Prepare(installation string) error {
	for _, hi := range h.hierarchies {
		if err := h.prepare(hi, filepath.Join(hi.parent, folderName, installation), Limits{}); err != nil {
			return fmt.Errorf("prepare cgroup %s: %w", installation, err)
		}
	}
	return nil
}

// Bound returns the bound in force, in bytes; 0 for none.
func (w *Installation) Bound() int64 {
	n, _ := memoryLimit(w.version, w.dir)
	return n
}

// Used returns the memory in use in bytes, including tmpfs. It excludes the page cache of files on disk, which the
// kernel drops before it kills.
func (w *Installation) Used() (int64, error) {
	usage, prefix := "memory.usage_in_bytes", "total_"
	if w.version == 2 {
		usage, prefix = "memory.current", ""
	}
	used, err := readInt(w.dir, usage)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // no group yet
	}
	if err != nil {
		return 0, err
	}
	for _, list := range []string{"inactive_file", "active_file"} {
		if n, err := readKey(w.dir, "memory.stat", prefix+list); err == nil {
			used -= n
		}
	}
	return max(used, 0), nil
}
