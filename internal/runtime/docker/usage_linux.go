package docker

import (
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/runtime"
)

// group is a container's cgroups, if they are on this machine. The zero value is none.
type group struct {
	cgroup *cgroup.Group
	pid    int // of the agent
}

// findGroup looks for the cgroups of a process that the engine reports as a container's. If the engine is elsewhere, or
// in a virtual machine, the same pid is another process here. So a cgroup counts only if the container's own name is in
// it.
func findGroup(pid int, id string) group {
	found, err := cgroup.OfProcess(pid)
	if err != nil || !slices.ContainsFunc(found.Folders(), func(f cgroup.Folder) bool { return strings.Contains(f.Path, id) }) {
		return group{}
	}
	mine := slices.DeleteFunc(found.Folders(), func(f cgroup.Folder) bool { return !strings.Contains(f.Path, id) })
	if found, err = cgroup.Open(mine); err != nil {
		return group{}
	}
	return group{cgroup: found, pid: pid}
}

func (g group) usage() (runtime.Usage, bool) {
	if g.cgroup == nil {
		return runtime.Usage{}, false
	}
	u := g.cgroup.Usage()
	if len(u.Sources) == 0 {
		return runtime.Usage{}, false
	}
	total, limited := g.cgroup.MemoryLimit()
	if limited {
		u.Within(total)
	}
	out := runtime.Usage{
		CPU: u.CPU, Memory: u.Memory, PeakMemory: u.PeakMemory, Pids: u.Pids, PeakPids: u.PeakPids,
		OOMKills: u.OOMKills, LimitHits: u.LimitHits, PidsRefused: u.PidsRefused, Sources: u.Sources,
	}
	if limited {
		out.MemoryTotal = &total
	}
	return out, true
}

// tasks is how many threads the agent has; 0 if that cannot be seen.
func (g group) tasks() int64 {
	if g.cgroup == nil {
		return 0
	}
	const own = 2 // "." and its name
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/"+strconv.Itoa(g.pid)+"/task", &st); err != nil {
		return 0
	}
	return max(int64(st.Nlink)-own, 0)
}
