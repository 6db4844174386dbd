//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Change replaces the group's present limits, and returns when all of them are in force. from and to must limit the same
// controllers. After a failure, a [LimitError], each limit is either the old or the new one.
func (g *Group) Change(from, to Limits) error {
	for _, f := range g.folders {
		for _, controller := range f.Controllers {
			if from.asks(controller) != to.asks(controller) {
				return fmt.Errorf("change cgroup: a limit of %s cannot be added or removed", controller)
			}
			if err := g.kernel.change(f, controller, from, to); err != nil {
				return fmt.Errorf("change cgroup: %w", err)
			}
		}
	}
	return nil
}

// change sets one controller's limit if it differs.
func (k kernel) change(f Folder, controller string, from, to Limits) error {
	switch {
	case controller == Memory && from.Memory != to.Memory:
		return k.relimit(f, to.Memory)
	case controller == CPU && from.CPU != to.CPU:
		if f.Version == 1 && outerQuota(f.Path, to.CPU) {
			// The kernel would refuse the group's own quota, see limit, and the old one may be below the outer quota.
			if err := k.set(f.Path, "cpu.cfs_quota_us", "-1"); err != nil {
				return &LimitError{Limit: CPU, File: filepath.Join(f.Path, "cpu.cfs_quota_us"), Err: err}
			}
			return nil
		}
	case controller == Pids && from.Pids != to.Pids:
	default:
		return nil
	}
	return k.limit(f.Version, f.Path, controller, to)
}

// LiftCPU removes the limit of CPU time, so that killed processes need not wait for their share to end. The limit of a group above holds.
func (g *Group) LiftCPU() error {
	f, ok := g.Folder(CPU)
	if !ok {
		return nil
	}
	if f.Version == 1 {
		return g.kernel.write(filepath.Join(f.Path, "cpu.cfs_quota_us"), "-1")
	}
	return g.kernel.write(filepath.Join(f.Path, "cpu.max"), "max")
}

// LimitMemory replaces the memory limit, whatever its present value. It does nothing for a group without one.
func (g *Group) LimitMemory(bytes int64) error {
	f, ok := g.Folder(Memory)
	if !ok {
		return nil
	}
	return g.kernel.relimit(f, bytes)
}

// relimit replaces the memory limit, whatever its present value. In v1 the limit of memory and swap together must never be the
// lower one, so the order depends on the direction. A warden may set a limit of its own in between; relimit then retries.
func (k kernel) relimit(f Folder, bytes int64) (err error) {
	for range 10 {
		err = unix.EINVAL
		if f.Version == 1 {
			if err = k.raise(f.Path, bytes); err == nil {
				err = k.sockets(f.Version, f.Path, min(bytes, socketBytes))
			}
		}
		if errors.Is(err, unix.EINVAL) {
			err = k.limit(f.Version, f.Path, Memory, Limits{Memory: bytes})
		}
		if !errors.Is(err, errOther) && (f.Version != 1 || !errors.Is(err, unix.EINVAL)) {
			return err
		}
	}
	return err
}

// raise raises the memory limit in v1, where the limit of memory and swap together must never be the lower one.
func (k kernel) raise(dir string, memory int64) error {
	value := strconv.FormatInt(pages(memory), 10)
	for _, name := range []string{"memory.memsw.limit_in_bytes", "memory.limit_in_bytes"} {
		err := k.set(dir, name, value)
		if name == "memory.memsw.limit_in_bytes" && errors.Is(err, unix.ENOENT) {
			continue // no swap accounting, as when the group was made
		}
		if err != nil {
			return &LimitError{Limit: Memory, File: filepath.Join(dir, name), Err: err}
		}
	}
	return nil
}

// pages rounds up to whole pages, as the kernel rounds down.
func pages(bytes int64) int64 {
	page := int64(os.Getpagesize())
	return (bytes + page - 1) / page * page
}
