//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Spec describes a new group.
type Spec struct {
	Installation string // installation of the group; a folder of that name, e.g. serve-1/native, holds all its groups
	ID           string // its name, unique in the installation
	Limits       Limits
	// Owner may make child groups in the cgroup2 folder, through [Group.ExecDir]. nil for none.
	Owner *Owner
}

// Owner is a user of the host.
type Owner struct{ UID, GID int }

const (
	period = 100_000 // µs over which a CPU limit is accounted, the kernel's default
	// maxChildren limits the groups that an owner can make below its group. The kernel's memory for a group counts toward no limit.
	maxChildren = "4096"
	// maxDepth is how deep an owner can nest groups. Nested without a limit, their path would become too long to remove them.
	maxDepth = "1"
)

// Create makes a group with its limits in every hierarchy in use. It returns a [LimitError] if a requested limit cannot
// be enforced, and fs.ErrExist if the group exists. A failed Create leaves nothing.
func (h *Host) Create(s Spec) (*Group, error) {
	if err := checkNames(s.Installation, s.ID); err != nil {
		return nil, err
	}
	for _, c := range h.caps {
		if s.Limits.asks(c.Name) && !c.Enforced {
			return nil, &LimitError{Limit: c.Name, Hint: c.Hint}
		}
	}
	g := &Group{kernel: h.kernel, fd: -1, exec: -1}
	for _, hi := range h.hierarchies {
		if err := h.add(g, hi, s); err != nil {
			g.CloseEntry()
			for _, f := range g.folders {
				h.kernel.rmdir(f.Path)
			}
			return nil, fmt.Errorf("make cgroup %s: %w", s.ID, err)
		}
	}
	return g, nil
}

// add makes the group's folder in one hierarchy.
func (h *Host) add(g *Group, hi *hierarchy, s Spec) error {
	dir, err := h.folder(hi, s)
	if err != nil {
		return err
	}
	g.folders = append(g.folders, Folder{Version: hi.version, Controllers: hi.controllers, Path: dir})
	for _, controller := range hi.controllers {
		if err := h.kernel.limit(hi.version, dir, controller, s.Limits); err != nil {
			return err
		}
	}
	if hi.version == 1 {
		fd, err := open(filepath.Join(dir, "tasks"), unix.O_WRONLY)
		if err == nil {
			g.tasks = append(g.tasks, fd)
		}
		return err
	}
	if g.fd, err = open(dir, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return err
	}
	if s.Owner != nil {
		return g.delegate(dir, *s.Owner)
	}
	return nil
}

// folder makes the group's folder, and missing folders above it.
func (h *Host) folder(hi *hierarchy, s Spec) (string, error) {
	above := filepath.Join(hi.parent, folderName, s.Installation)
	dir := filepath.Join(above, s.ID)
	for {
		err := h.prepare(hi, above, s.Limits)
		if err == nil {
			if err = h.kernel.mkdir(dir); err == nil {
				return dir, nil
			}
			err = &os.PathError{Op: "mkdir", Path: dir, Err: err}
		}
		// A withdrawn controller is ENOENT as well, permanently.
		if limit := (*LimitError)(nil); errors.As(err, &limit) && exists(filepath.Dir(limit.File)) {
			return "", err
		}
		// Another process may sweep the empty folders of a shared installation at any moment.
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) || !exists(hi.parent) {
			return "", err
		}
		h.mu.Lock()
		delete(h.made, above)
		h.mu.Unlock()
	}
}

// prepare makes the folders above a group, once, and enables their controllers.
func (h *Host) prepare(hi *hierarchy, above string, l Limits) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.made[above] {
		return nil
	}
	dirs := []string{above}
	for dirs[0] != hi.parent {
		dirs = slices.Insert(dirs, 0, filepath.Dir(dirs[0]))
	}
	complete := true
	for i, dir := range dirs {
		if i > 0 {
			if err := h.kernel.mkdir(dir); err != nil && !errors.Is(err, unix.EEXIST) {
				return &os.PathError{Op: "mkdir", Path: dir, Err: err}
			}
		}
		if hi.version == 1 {
			// Kernels before 5.11 count a child's memory for its parent only if this is set before there are children.
			if dir != hi.parent && exists(filepath.Join(dir, "memory.use_hierarchy")) {
				if n, err := readInt(dir, "memory.use_hierarchy"); err == nil && n == 0 {
					if err := h.kernel.write(filepath.Join(dir, "memory.use_hierarchy"), "1"); err != nil {
						return err
					}
				}
			}
		} else {
			for _, controller := range hi.controllers {
				err := h.enable(dir, controller)
				if err != nil && l.asks(controller) {
					return err
				}
				complete = complete && err == nil
			}
		}
		if err := h.share(hi, dir, i); err != nil {
			return err
		}
	}
	// Otherwise a group with more limits would lack a controller's files, without a hint, however long ago the cause was fixed.
	h.made[above] = complete
	return nil
}

// share sets the limits of the folders above groups, depending on their depth below the parent.
func (h *Host) share(hi *hierarchy, dir string, depth int) error {
	switch depth {
	case 1:
		return h.yield(hi, dir)
	case 2:
		return h.bind(hi, dir)
	}
	return nil
}

// enable enables a cgroup2 controller for the children of dir. A folder with such children must not hold processes. In a container's
// private cgroup it holds the container's, which enable moves to a leaf of their own.
func (h *Host) enable(dir, controller string) error {
	on, err := read(dir, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	for _, have := range strings.Fields(on) {
		if have == controller {
			return nil
		}
	}
	const tries = 10 // a process may fork during the move
	for range tries {
		if err = h.kernel.write(filepath.Join(dir, "cgroup.subtree_control"), "+"+controller); !errors.Is(err, unix.EBUSY) {
			break
		}
		if moveErr := h.vacate(dir); moveErr != nil {
			return &LimitError{Limit: controller, File: filepath.Join(dir, "cgroup.subtree_control"), Err: moveErr,
				Hint: "processes in " + dir + " are in the way; start belljar in a separate cgroup"}
		}
	}
	if err != nil {
		return &LimitError{Limit: controller, File: filepath.Join(dir, "cgroup.subtree_control"), Err: err,
			Hint: "the controller cannot be turned on below " + dir}
	}
	return nil
}

func (h *Host) vacate(dir string) error {
	leaf := filepath.Join(dir, initName)
	if err := h.kernel.mkdir(leaf); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: leaf, Err: err}
	}
	pids, err := read(dir, "cgroup.procs")
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(pids) {
		if pid == "0" {
			continue // outside our pid namespace, so it has no number here
		}
		// ESRCH: the process has ended meanwhile.
		if err := h.kernel.write(filepath.Join(leaf, "cgroup.procs"), pid); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// delegate lets the owner make children, and opens the folder as a mount of its own: from an ordinary descriptor ".." would lead out of
// the sandbox's root into the host's.
func (g *Group) delegate(dir string, o Owner) error {
	for _, bound := range [][2]string{{"cgroup.max.descendants", maxChildren}, {"cgroup.max.depth", maxDepth}} {
		if err := g.kernel.set(dir, bound[0], bound[1]); err != nil {
			return err
		}
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		err := unix.Lchown(filepath.Join(dir, name), o.UID, o.GID)
		if errors.Is(err, unix.EPERM) {
			return nil // rootless with several ids: no delegation, see ExecDir
		}
		if err != nil {
			return &os.PathError{Op: "chown", Path: filepath.Join(dir, name), Err: err}
		}
	}
	fd, err := unix.OpenTree(g.fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	switch err {
	case nil:
		g.exec = fd
	case unix.ENOSYS, unix.EPERM, unix.EINVAL:
	default:
		return fmt.Errorf("open_tree %s: %w", dir, err)
	}
	return nil
}

// socketBytes limits the data that a group's sockets may buffer on v1, in addition to its memory.
const socketBytes = 64 << 20

// limit sets one controller's limit.
func (k kernel) limit(version int, dir, controller string, l Limits) error {
	if !l.asks(controller) {
		return nil
	}
	fail := func(file, hint string, err error) error {
		return &LimitError{Limit: controller, File: filepath.Join(dir, file), Hint: hint, Err: err}
	}
	switch controller {
	case Pids:
		if err := k.set(dir, "pids.max", strconv.FormatInt(l.Pids, 10)); err != nil {
			return fail("pids.max", "", err)
		}
	case CPU:
		quota := int64(math.Max(l.CPU*period, 1000)) // the kernel's minimum is 1 ms
		if version == 2 {
			if err := k.set(dir, "cpu.max", fmt.Sprintf("%d %d", quota, period)); err != nil {
				return fail("cpu.max", "", err)
			}
			return nil
		}
		if is, err := readInt(dir, "cpu.cfs_period_us"); err != nil || is != period {
			if err := k.set(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
				return fail("cpu.cfs_period_us", "the kernel needs CONFIG_CFS_BANDWIDTH", err)
			}
		}
		err := k.set(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
		if errors.Is(err, unix.EINVAL) && outerQuota(dir, l.CPU) {
			return nil // v1 refuses a child more than its parent's quota, which is then the limit
		}
		if err != nil {
			return fail("cpu.cfs_quota_us", "", err)
		}
	case Memory:
		if err := k.memory(version, dir, l.Memory); err != nil {
			return err
		}
		return k.sockets(version, dir, min(l.Memory, socketBytes))
	}
	return nil
}

// memory sets the limits of memory and of swap.
func (k kernel) memory(version int, dir string, most int64) error {
	bytes := strconv.FormatInt(pages(most), 10)
	names := map[int][3]string{1: {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes}, 2: {"memory.max", "memory.swap.max", "0"}}[version]
	if err := k.set(dir, names[0], bytes); err != nil {
		return &LimitError{Limit: Memory, File: filepath.Join(dir, names[0]), Err: err}
	}
	err := k.set(dir, names[1], names[2])
	if errors.Is(err, unix.ENOENT) { // no swap accounting: the capability states what that means
		if version == 1 {
			err = k.set(dir, "memory.swappiness", "0")
		} else {
			err = nil
		}
	}
	if err != nil {
		return &LimitError{Limit: Memory, File: filepath.Join(dir, names[1]), Err: err}
	}
	// memory.oom.group is 0 in a new group: the kernel kills one process and not the sandbox.
	return nil
}

// sockets limits the data in socket buffers on v1. The kernel charges it separately, and charges no group without a limit. Some kernels
// lack the file.
func (k kernel) sockets(version int, dir string, most int64) error {
	if version != 1 {
		return nil
	}
	const file = "memory.kmem.tcp.limit_in_bytes"
	if err := k.set(dir, file, strconv.FormatInt(pages(most), 10)); err != nil && !errors.Is(err, unix.ENOENT) {
		return &LimitError{Limit: Memory, File: filepath.Join(dir, file), Err: err}
	}
	return nil
}

// outerQuota reports whether a v1 group above dir allows at most that many cores.
func outerQuota(dir string, cores float64) bool {
	for dir = filepath.Dir(dir); ; dir = filepath.Dir(dir) {
		quota, err := readInt(dir, "cpu.cfs_quota_us")
		if err != nil {
			return false
		}
		per, err := readInt(dir, "cpu.cfs_period_us")
		if err != nil {
			return false
		}
		if quota > 0 && float64(quota)/float64(per) <= cores {
			return true
		}
	}
}

// checkNames refuses invalid names. An installation's name may have several parts.
func checkNames(installation string, ids ...string) error {
	for _, name := range append(strings.Split(installation, "/"), ids...) {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// checkName returns an error unless name is a single folder name that cannot be one of the kernel's files.
func checkName(name string) error {
	if name == "" || len(name) > 200 || strings.ContainsAny(name, "/\x00\n") || strings.Contains(name, ".") {
		return fmt.Errorf("cgroup name %q: want a folder name without dots", name)
	}
	return nil
}
