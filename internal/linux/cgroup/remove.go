//go:build linux

package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Remove removes the group and its children, and returns when they are gone. The caller must have killed the processes
// in them; Remove waits for their end until ctx is done. It is idempotent.
func (g *Group) Remove(ctx context.Context) error {
	g.CloseEntry()
	for _, f := range g.folders {
		if err := g.kernel.remove(ctx, f.Version, f.Path); err != nil {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}

// Remove removes the remains of a group, like [Group.Remove].
func (h *Host) Remove(ctx context.Context, installation, id string) error {
	if err := checkNames(installation, id); err != nil {
		return err
	}
	return h.group(installation, id).Remove(ctx)
}

// List returns the names of an installation's groups, including half-made ones, sorted.
func (h *Host) List(installation string) ([]string, error) {
	if err := checkNames(installation); err != nil {
		return nil, err
	}
	var ids []string
	for _, hi := range h.hierarchies {
		list, err := children(filepath.Join(hi.parent, folderName, installation))
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
		ids = append(ids, list...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Sweep removes the folders of an installation without groups, and the unused folders above them.
func (h *Host) Sweep(installation string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hi := range h.hierarchies {
		above := filepath.Join(hi.parent, folderName, installation)
		delete(h.made, above)
		// The kernel refuses the removal while there is a group below.
		for dir := above; dir != hi.parent; dir = filepath.Dir(dir) {
			h.kernel.rmdir(dir)
		}
	}
}

func (k kernel) remove(ctx context.Context, version int, dir string) error {
	// v1 does not notify, and v2 may notify just before the group can be removed: a few short waits, then longer ones.
	wait := 50 * time.Microsecond
	for {
		err := k.rmdir(dir)
		switch {
		case err == nil, errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
			return nil
		case !errors.Is(err, unix.EBUSY):
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		if version == 2 {
			if err := awaitEmpty(ctx, dir); err != nil {
				return err
			}
		}
		list, err := children(dir)
		if err != nil {
			return err
		}
		for _, child := range list {
			if err := k.remove(ctx, version, filepath.Join(dir, child)); err != nil {
				return err
			}
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return &os.PathError{Op: "rmdir", Path: dir, Err: errors.Join(unix.EBUSY, context.Cause(ctx))}
		case <-time.After(wait):
		}
		wait = min(2*wait, 20*time.Millisecond)
	}
}

// awaitEmpty returns when no process is in dir or below.
func awaitEmpty(ctx context.Context, dir string) error {
	fd, err := open(filepath.Join(dir, "cgroup.events"), unix.O_RDONLY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	cancel, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	defer unix.Close(cancel)
	stop := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		unix.Write(cancel, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		close(stop)
	})
	defer func() {
		if !unhook() {
			<-stop // the descriptor must not be closed, and its number reused, under the write
		}
	}()
	var text [256]byte
	for {
		// Reading this very descriptor arms its next notification.
		n, err := unix.Pread(fd, text[:], 0)
		if err == unix.ENODEV || err == nil && !bytes.Contains(text[:n], []byte("populated 1")) {
			return nil
		}
		if err != nil && err != unix.EINTR {
			return &os.PathError{Op: "read", Path: filepath.Join(dir, "cgroup.events"), Err: err}
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}, {Fd: int32(cancel), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return fmt.Errorf("poll %s: %w", filepath.Join(dir, "cgroup.events"), err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("processes are left in %s: %w", dir, context.Cause(ctx))
		}
	}
}

func children(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
