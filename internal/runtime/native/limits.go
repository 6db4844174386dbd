//go:build linux

package native

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/warden"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// Sizes that a sandbox needs in addition to its programs.
const (
	// agentTasks is room for the agent's threads and a keeper for each command. RLIMIT_NPROC limits programs, and counts them
	// alone. Without it a fork bomb would take the agent's threads too.
	agentTasks = 64
)

// limits are a sandbox's caps in the kernel's own units.
type limits struct {
	memory int64 // of programs
	tmp    int64
	run    int64
	shm    int64
	inodes int64
	pids   int64
	cpu    float64
}

// kernelLimits turns the limits of a request into those of the kernel.
func kernelLimits(l belljar.Limits) limits {
	return limits{
		memory: int64(l.MemoryMB) << 20, tmp: int64(l.TmpMB) << 20, run: rack.RunBytes, shm: rack.ShmBytes, inodes: int64(l.Inodes),
		pids: int64(l.Pids) + agentTasks, cpu: l.CPU,
	}
}

// cgroup returns the limits that a cgroup enforces. Files in memory are charged to it as well. The warden makes room for
// them, so that a full workspace is ENOSPC and not an out-of-memory kill.
func (k limits) cgroup() cgroup.Limits {
	return cgroup.Limits{Memory: warden.Limit(k.memory), Pids: k.pids, CPU: k.cpu}
}

// programs is how many processes the programs of a sandbox may have.
func programs(l belljar.Limits) int { return min(l.Pids, l.NProc) }

// agentOwner is the agent's user on the host. If ids are shared, it is the user of the programs, whichever that is inside.
func agentOwner(ids *idmap.Range) *cgroup.Owner {
	uid, gid := agentID, agentID
	if ids.Shared {
		uid, gid = ids.UIDs[0].Inside, ids.GIDs[0].Inside
	}
	return &cgroup.Owner{UID: ids.HostUID(uid), GID: ids.HostGID(gid)}
}

// limited returns how this host can limit memory, processes and processor time.
func (r *Runtime) limited() []runtime.Protection {
	var list []runtime.Protection
	for _, name := range []string{runtime.ProtectMemory, runtime.ProtectPids, runtime.ProtectCPU} {
		p := r.Limit(name)
		if name == runtime.ProtectMemory && p.Enforced {
			p.By += " of programs alone, which follows the files in memory"
		}
		if name == runtime.ProtectPids && !p.Enforced {
			// A user namespace counts its own processes, so the classic limit holds for one sandbox.
			p.Enforced, p.By = true, "RLIMIT_NPROC in the sandbox's own user namespace"
			p.Weaker = "no figures, and the limit is that of each user inside"
		}
		if name == runtime.ProtectMemory && !p.Enforced {
			p.By = runtime.ByRlimitData
			p.Weaker = "each process may map twice the limit, and shared memory and files in memory do not count"
		}
		list = append(list, p)
	}
	return list
}

// usageOf turns a cgroup's figures into a sandbox's. own is how many tasks the agent has, which are not the programs'.
func usageOf(u cgroup.Usage, own, limit int64) runtime.Usage {
	out := runtime.Usage{
		CPU: u.CPU, Memory: u.Memory, PeakMemory: u.PeakMemory, Pids: u.Pids, PeakPids: u.PeakPids,
		OOMKills: u.OOMKills, LimitHits: u.LimitHits, PidsRefused: u.PidsRefused, Sources: u.Sources,
	}
	out.LessAgent(own, limit)
	return out
}

// tasks returns how many threads a process has, 0 if it has ended. It counts the links of the folder that has a subfolder for
// each thread, which is faster than reading the process's status.
func tasks(pid int) int64 {
	const own = 2 // "." and its name
	var st unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/task", &st); err != nil {
		return 0
	}
	return max(int64(st.Nlink)-own, 0)
}
