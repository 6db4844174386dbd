//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	folderName = "belljar"      // contains all our folders
	initName   = "belljar-init" // holds the processes of a folder that must not hold any
)

// Options describe the machine. The zero value is the machine as this process sees it.
type Options struct {
	Root string // replaces "/", for tests
}

// Host holds the hierarchies in which this process may make groups. It is safe for concurrent use.
type Host struct {
	kernel      kernel
	root        string
	hierarchies []*hierarchy
	caps        []Capability

	mu    sync.Mutex // guards the fields below and the making of the folders above a group
	made  map[string]bool
	bound Bound
}

// hierarchy is one tree of groups that we use.
type hierarchy struct {
	version     int
	controllers []string // our controllers in this hierarchy; none in a cgroup2 that only separates execs
	mount       string
	parent      string // below which folderName is made
}

// Discover finds the hierarchies and the folders in them that this process may use. It changes nothing. A host without
// any is no error: see [Host.Capabilities].
func Discover(o Options) (*Host, error) { return discover(o, realKernel()) }

func discover(o Options, k kernel) (*Host, error) {
	mountinfo, err := os.ReadFile(filepath.Join(o.Root, "/proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("find cgroup mounts: %w", err)
	}
	cgroups, err := os.ReadFile(filepath.Join(o.Root, "/proc/self/cgroup"))
	if err != nil {
		return nil, fmt.Errorf("find own cgroup: %w", err)
	}
	mounts, own := parseMounts(string(mountinfo)), parseOwn(string(cgroups))
	for i := range mounts {
		mounts[i].point = filepath.Join(o.Root, mounts[i].point)
	}

	h := &Host{kernel: k, root: o.Root, made: map[string]bool{}}
	unified, problem := h.unified(mounts, own[""])
	var offered []string
	if unified != nil {
		text, err := read(unified.parent, "cgroup.controllers")
		if err != nil {
			return nil, fmt.Errorf("list controllers: %w", err)
		}
		offered = strings.Fields(text)
	}
	swap := swapOn(o.Root)
	for _, controller := range []string{Memory, Pids, CPU} {
		if m := v1Mount(mounts, controller); m != nil {
			h.useV1(*m, controller, own[controller], swap)
		} else {
			h.useV2(unified, controller, slices.Contains(offered, controller), problem, swap)
		}
	}
	// Any cgroup2 folder measures CPU time, with or without controllers.
	if m := v1Mount(mounts, cpuacct); m != nil && unified == nil {
		h.useV1(*m, cpuacct, own[cpuacct], swap)
	}
	if unified != nil {
		// First, so that the end of a sandbox is awaited in the hierarchy that notifies.
		h.hierarchies = slices.Insert(h.hierarchies, 0, unified)
	}
	return h, nil
}

// Capabilities reports for each limit whether and how it holds here, as far as that is known without making a group.
func (h *Host) Capabilities() []Capability { return slices.Clone(h.caps) }

// HasExecGroups reports whether there is a cgroup2 in which each exec can have a group, if the owner may get it.
func (h *Host) HasExecGroups() bool {
	return slices.ContainsFunc(h.hierarchies, func(own *hierarchy) bool { return own.version == 2 })
}

// Capability returns the capability of that name.
func (h *Host) Capability(name string) Capability {
	for _, c := range h.caps {
		if c.Name == name {
			return c
		}
	}
	return Capability{Name: name}
}

// Enforceable returns l without the limits that cannot be enforced here.
func (h *Host) Enforceable(l Limits) (can Limits) {
	if h.Capability(Memory).Enforced {
		can.Memory = l.Memory
	}
	if h.Capability(Pids).Enforced {
		can.Pids = l.Pids
	}
	if h.Capability(CPU).Enforced {
		can.CPU = l.CPU
	}
	return can
}

func v1Mount(mounts []mount, controller string) *mount {
	var found *mount
	for i, m := range mounts {
		if m.version == 1 && slices.Contains(m.controllers, controller) && (found == nil || found.readOnly) {
			found = &mounts[i]
		}
	}
	return found
}

// useV1 takes a controller from its v1 hierarchy, below our own folder, so that an outer limit stays in force.
func (h *Host) useV1(m mount, controller, own string, swap bool) {
	parent := m.folder(own)
	if !exists(parent) {
		parent = m.point
	}
	c := Capability{Name: controller}
	switch {
	case m.readOnly:
		c.Hint = remount(m.point)
	case h.kernel.access(parent) != nil:
		c.Hint = "no permission for " + parent + "; run as root, or boot with systemd.unified_cgroup_hierarchy=1 and use a delegated cgroup"
	default:
		c.Enforced = true
		c.By = "cgroup1 " + map[string]string{Memory: "memory.limit_in_bytes", Pids: "pids.max", CPU: "cpu.cfs_quota_us"}[controller]
		if controller == Memory && swap && !exists(filepath.Join(parent, "memory.memsw.limit_in_bytes")) {
			c.Weaker, c.Hint = "swap is discouraged and not limited", "boot with swapaccount=1"
		}
	}
	if controller != cpuacct {
		h.caps = append(h.caps, c)
	}
	if !c.Enforced {
		return
	}
	for _, have := range h.hierarchies {
		if have.mount == m.point && have.parent == parent {
			have.controllers = append(have.controllers, controller)
			return
		}
	}
	h.hierarchies = append(h.hierarchies, &hierarchy{version: 1, controllers: []string{controller}, mount: m.point, parent: parent})
}

func (h *Host) useV2(unified *hierarchy, controller string, offered bool, problem string, swap bool) {
	c := Capability{Name: controller}
	switch {
	case unified == nil:
		c.Hint = problem
	case !offered && isTrueRoot(unified.mount) && unified.parent == unified.mount:
		c.Hint = "this kernel offers no " + controller + " controller; boot with cgroup_enable=" + controller + ", or use a kernel that has it"
	case !offered:
		c.Hint = "the " + controller + " controller is not delegated to " + unified.parent +
			"; with systemd: Delegate=cpu memory pids in a drop-in for user@.service"
	default:
		c.Enforced = true
		c.By = "cgroup2 " + map[string]string{Memory: "memory.max", Pids: "pids.max", CPU: "cpu.max"}[controller]
		unified.controllers = append(unified.controllers, controller)
		if controller == Memory && swap && unified.parent != unified.mount && !exists(filepath.Join(unified.parent, "memory.swap.max")) {
			c.Weaker, c.Hint = "swap is not limited", "boot with swapaccount=1"
		}
	}
	h.caps = append(h.caps, c)
}

// unified finds the cgroup2 folder for our folder; nil and the reason if there is none.
func (h *Host) unified(mounts []mount, own string) (*hierarchy, string) {
	problem := "no cgroup file system with this controller is mounted"
	for _, m := range mounts {
		if m.version != 2 {
			continue
		}
		if m.readOnly {
			problem = remount(m.point)
			continue
		}
		parent := h.delegated(m, own)
		if parent == "" {
			problem = "no cgroup is delegated to this process; run as root, or through `systemd-run --user --scope -p Delegate=yes`"
			continue
		}
		return &hierarchy{version: 2, mount: m.point, parent: parent}, ""
	}
	return nil, problem
}

// delegated returns the real root of the hierarchy if we may write to it, and else the highest folder above or at our own
// that we may write to. A process can be put into a group only if we own everything up to a common ancestor.
func (h *Host) delegated(m mount, own string) string {
	if isTrueRoot(m.point) && h.manages(m.point) {
		return m.point
	}
	dir := m.folder(own)
	if !h.manages(dir) {
		return ""
	}
	for dir != m.point && h.manages(filepath.Dir(dir)) {
		dir = filepath.Dir(dir)
	}
	return dir
}

func (h *Host) manages(dir string) bool {
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if h.kernel.access(filepath.Join(dir, name)) != nil {
			return false
		}
	}
	return true
}

// remount returns how to get a writable cgroup file system. Container engines mount a container's own cgroup read-only; that
// is only a flag of the mount, which a process that may mount can change.
func remount(point string) string {
	return point + " is mounted read-only; in a container that has CAP_SYS_ADMIN: mount -o remount,rw,bind " + point
}

// isTrueRoot distinguishes the root of the machine's cgroup2 from a cgroup namespace's: only the first has no type.
func isTrueRoot(point string) bool { return !exists(filepath.Join(point, "cgroup.type")) }

// swapOn reports whether the machine has any swap, after its line of headings.
func swapOn(root string) bool {
	text, err := os.ReadFile(filepath.Join(root, "/proc/swaps"))
	return err != nil || strings.Count(string(text), "\n") > 1
}
