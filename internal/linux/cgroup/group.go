//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Group is one sandbox's group. Its methods are safe for concurrent use, except CloseEntry.
type Group struct {
	kernel  kernel
	folders []Folder
	fd      int
	exec    int
	tasks   []int
}

// Folder is a group's folder in one hierarchy. A sandbox's record contains it, so that any process can find the group
// again, even from another cgroup than its maker's.
type Folder struct {
	Version     int      `json:"version"` // 1 or 2
	Controllers []string `json:"controllers,omitempty"`
	Path        string   `json:"path"` // as the host sees it
}

// Open finds a group by its folders. Processes cannot enter a group opened this way. fs.ErrNotExist if none of its
// folders is left.
func Open(folders []Folder) (*Group, error) {
	g := &Group{kernel: realKernel(), folders: slices.Clone(folders), fd: -1, exec: -1}
	if !slices.ContainsFunc(folders, func(f Folder) bool { return exists(f.Path) }) {
		return nil, fmt.Errorf("open cgroup: %w", os.ErrNotExist)
	}
	return g, nil
}

// Open finds a group of this host by name.
func (h *Host) Open(installation, id string) (*Group, error) {
	g := h.group(installation, id)
	if !slices.ContainsFunc(g.folders, func(f Folder) bool { return exists(f.Path) }) {
		return nil, fmt.Errorf("open cgroup %s: %w", id, os.ErrNotExist)
	}
	return g, nil
}

func (h *Host) group(installation, id string) *Group {
	g := &Group{kernel: h.kernel, fd: -1, exec: -1}
	for _, hi := range h.hierarchies {
		g.folders = append(g.folders, Folder{Version: hi.version, Controllers: hi.controllers,
			Path: filepath.Join(hi.parent, folderName, installation, id)})
	}
	return g
}

// Folders returns the group's folders.
func (g *Group) Folders() []Folder { return slices.Clone(g.folders) }

// Folder returns the folder with a controller's files; false if no folder of the group has the controller.
func (g *Group) Folder(controller string) (Folder, bool) {
	i := slices.IndexFunc(g.folders, func(f Folder) bool { return slices.Contains(f.Controllers, controller) })
	if i < 0 {
		return Folder{}, false
	}
	return g.folders[i], true
}

// FD returns a descriptor of the cgroup2 folder for CLONE_INTO_CGROUP; -1 on a host without cgroup2.
func (g *Group) FD() int { return g.fd }

// TaskFDs returns descriptors of the tasks files of the v1 folders. A process enters by writing "0" to each while it has
// a single thread, which needs no privileges.
func (g *Group) TaskFDs() []int { return g.tasks }

// ExecDir is the cgroup2 folder in which the owner can make children, one per exec; -1 if it cannot be delegated: without
// cgroup2, without the right to change its owner, or before Linux 5.2. It is the same group as FD's. So a process in it
// that unshares its cgroup namespace has the folder as its root, and stays on the allowed side of nsdelegate. It is the
// root of a detached mount: the folders above it cannot be reached from it.
func (g *Group) ExecDir() int { return g.exec }

// CloseEntry closes the descriptors of FD, TaskFDs and ExecDir, which are not needed once the sandbox's first process
// runs. It may be called twice.
func (g *Group) CloseEntry() {
	for _, fd := range append(g.tasks, g.fd, g.exec) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	g.tasks, g.fd, g.exec = nil, -1, -1
}

// Kill kills every process of the group and of its children with one write. It returns false if the kernel cannot (no
// cgroup2, or before Linux 5.14): then the caller must kill the sandbox's init, which ends its pid namespace.
func (g *Group) Kill() (bool, error) {
	for _, f := range g.folders {
		if f.Version != 2 {
			continue
		}
		err := g.kernel.write(filepath.Join(f.Path, "cgroup.kill"), "1")
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		return err == nil, err
	}
	return false, nil
}
