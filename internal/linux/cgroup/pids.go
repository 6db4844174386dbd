//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// PidsCeiling returns how many processes and threads groups can have together, at most: the machine's number, the lowest limit of the
// cgroups above them or, for an ordinary user, its own limit, to which Linux counts all sandboxes of that user; 0 if unknown.
func (h *Host) PidsCeiling() int64 {
	var known []int64
	for _, name := range []string{"pid_max", "threads-max"} {
		if n, err := readInt(filepath.Join(h.root, "/proc/sys/kernel"), name); err == nil {
			known = append(known, n)
		}
	}
	if hi := h.with(Pids); hi != nil {
		for dir := hi.parent; strings.HasPrefix(dir, hi.mount); dir = filepath.Dir(dir) {
			if is, ok := pidsLimit(dir); ok {
				known = append(known, is)
			}
		}
	}
	var own unix.Rlimit
	if os.Geteuid() != 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &own) == nil && own.Cur < 1<<31 {
		known = append(known, int64(own.Cur))
	}
	if len(known) == 0 {
		return 0
	}
	return slices.Min(known)
}

// pidsLimit is a folder's own limit, if it has one.
func pidsLimit(dir string) (int64, bool) {
	n, err := readInt(dir, "pids.max") // "max" is no number
	return n, err == nil
}

// bindPids sets the bound on the processes of an installation. Unlike memory it can be lower than what is in use: Linux only refuses
// new ones.
func (h *Host) bindPids(hi *hierarchy, dir string) error {
	want := h.bound.Pids
	if want == 0 || !slices.Contains(hi.controllers, Pids) {
		return nil
	}
	if is, has := pidsLimit(dir); has && (is == want || is > want && h.bound.Shared && h.inhabited(dir)) {
		return nil
	}
	if err := h.kernel.set(dir, "pids.max", strconv.FormatInt(want, 10)); err != nil {
		return &LimitError{Limit: Pids, File: filepath.Join(dir, "pids.max"), Err: err}
	}
	return nil
}

// Pids returns how many processes and threads an installation has, and its bound; false without a bound.
func (h *Host) Pids(installation string) (used, bound int64, ok bool) {
	hi := h.with(Pids)
	if hi == nil {
		return 0, 0, false
	}
	dir := hi.top(installation)
	if bound, ok = pidsLimit(dir); !ok {
		return 0, 0, false
	}
	used, err := readInt(dir, "pids.current")
	return used, bound, err == nil
}
