//go:build linux

package gvisor

import (
	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// Sizes that a sandbox needs in addition to its programs.
const (
	// overhead is the memory for the sentry, the gofer and the keep, which are in the sandbox's cgroup: about 50 MiB when
	// idle. It grows with the number of files, processes and mappings that the sentry manages.
	overhead = 128 << 20
	// hostTasks is how many threads of the host these may have, and hostTasksEach how many more for each process of a program.
	// This limit protects the host; the sentry enforces a separate one for programs.
	hostTasks     = 512
	hostTasksEach = 4
	// agentTasks is how many threads the agent may have in the sentry.
	agentTasks = 64
)

// limits are a sandbox's caps in the kernel's own units.
type limits struct {
	programs int64 // memory of programs, in the sentry
	memory   int64 // of everything on the host: programs, file systems and gVisor
	tmp      int64
	run      int64
	shm      int64
	inodes   int64
	pids     int64 // of programs, in the sentry
	tasks    int64 // of gVisor, on the host
	cpu      float64
}

// outOfMemory is the status of gVisor's kernel when programs have more memory than they may; see gvisor/memory.go.
const outOfMemory = 86

// kernelLimits turns the limits of a request into those of the kernels. The sentry enforces the memory limit of programs. The
// cgroup bounds everything, so its limit adds the sizes of the memory file systems and gVisor's own need. A full workspace is
// therefore ENOSPC and not an out-of-memory kill.
func kernelLimits(l belljar.Limits, w runtime.Workspace, again int64) limits {
	k := limits{
		tmp: int64(l.TmpMB) << 20, run: rack.RunBytes, shm: rack.ShmBytes, inodes: int64(l.Inodes),
		pids: int64(min(l.Pids, l.NProc)), tasks: hostTasks + hostTasksEach*int64(l.Pids), cpu: l.CPU,
	}
	k.programs = int64(l.MemoryMB) << 20
	if w.Medium == runtime.MediumDisk {
		w.Bytes = 0
	}
	k.memory = k.programs + w.Bytes + k.tmp + k.run + k.shm + again + overhead
	return k
}

// againBytes returns the size of the tree's writable folders that are in other folders of the image.
func againBytes(t *rootfs.Tree, l belljar.Limits) (bytes int64) {
	for _, p := range t.Parts {
		if p.Kind == rootfs.BindWritable {
			bytes += againSize(p, l)
		}
	}
	return bytes
}

func againSize(p rootfs.Part, l belljar.Limits) int64 {
	if p.Target == "run" {
		return rack.RunBytes
	}
	return int64(l.TmpMB) << 20
}

// cgroup returns the limits that a cgroup enforces.
func (k limits) cgroup() cgroup.Limits {
	return cgroup.Limits{Memory: k.memory, Pids: k.tasks, CPU: k.cpu}
}

// limited returns how memory, processes and processor time can be limited on this host.
func (r *Runtime) limited() []runtime.Protection {
	list := []runtime.Protection{{
		Name: runtime.ProtectPids, Enforced: true, By: "RLIMIT_NPROC in gVisor's own kernel, which has one sandbox's processes only",
		Weaker: "no figures: what the host counts are gVisor's threads",
	}}
	for _, name := range []string{runtime.ProtectMemory, runtime.ProtectCPU} {
		p := r.Limit(name)
		if !p.Enforced && p.Hint == "" {
			p.Hint = "run belljar where it may make cgroups"
		}
		if name == runtime.ProtectMemory && p.Enforced {
			p.By = "gVisor's own kernel, which counts the memory of programs; around it " + p.By + ", with the caps of files and 128 MiB for gVisor on top"
		}
		list = append(list, p)
	}
	return list
}

// usageOf turns a cgroup's figures into a sandbox's. The processes that the host counts are gVisor's.
func usageOf(u cgroup.Usage) runtime.Usage {
	out := runtime.Usage{CPU: u.CPU, Memory: u.Memory, PeakMemory: u.PeakMemory, OOMKills: u.OOMKills, LimitHits: u.LimitHits, Sources: map[string]string{}}
	for _, name := range []string{"cpu", "memory", "peak_memory"} {
		if source := u.Sources[name]; source != "" {
			out.Sources[name] = source + ", gVisor's own included"
		}
	}
	if source := u.Sources["oom_kills"]; source != "" {
		out.Sources["oom_kills"] = source
	}
	return out
}
