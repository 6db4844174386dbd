//go:build linux

package native

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// Probe implements [runtime.Runtime].
func (r *Runtime) Probe(context.Context) (runtime.Capabilities, error) { return r.capabilities(), nil }

// Test implements [runtime.Tester].
func (r *Runtime) Test(ctx context.Context) (runtime.Capabilities, error) {
	r.devices() // whose nodes they are is a capability
	return runtime.TestSandbox(ctx, r, r.capabilities())
}

// start is the approximate duration of a cold start.
const start = 6 * time.Millisecond

// capabilities returns the protections that this host can enforce, as far as that shows without making a sandbox.
func (r *Runtime) capabilities() runtime.Capabilities {
	root := os.Geteuid() == 0
	c := runtime.Capabilities{
		Available: true, State: runtime.StateSupported, Isolation: runtime.IsolationNamespace, Version: Version,
		Rootless: !root, OOMScope: "process", AgentUID: "separate", HostImage: true, Unpacked: true, LimitMemory: true, Relay: true, Start: start,
		GoCache: r.overlays, Overlay: root && r.overlays, Layers: true, SharedTmp: true, Disk: r.NoDisk.Detail == "", NoDisk: r.NoDisk,
	}
	shared := r.SingleID()
	identity := r.Identity()
	if shared {
		c.AgentUID = "shared"
		identity.By = "user namespaces, one id"
		identity.Weaker = "every sandbox runs as your own uid on the host, and its agent with it"
	}
	files := runtime.Protection{Name: runtime.ProtectFilesystem, Enforced: true, By: "mount namespaces, pivot_root, read-only locked mounts"}
	r.mu.Lock()
	if root && r.nodes != "" && r.nodes != r.ownNodes {
		files.Weaker, files.Hint = "device nodes are the host's", hintNodes
	}
	r.mu.Unlock()
	c.Protections = []runtime.Protection{
		files,
		{Name: runtime.ProtectNetwork, Enforced: true, By: "a network namespace with a loopback only"},
		{Name: runtime.ProtectSeccomp, Enforced: true, By: "a seccomp allow-list, the same for every program"},
		identity,
		runtime.WallTime(),
		runtime.MemoryDisk(),
		r.landlock(),
		r.cpuTime(root || shared),
	}
	c.Protections = append(c.Protections, r.limited()...)
	if rules := r.landlock(); !rules.Enforced {
		c.NoShare = runtime.Reason{
			Code: "host_prerequisite_missing", Step: stepLandlock, Detail: "the kernel has no Landlock, which keeps FIFOs out of volumes",
			Hint: rules.Hint + "; or an operator can do without it: allow_weak " + runtime.ProtectLandlock,
		}
	}
	return c
}

// cpuTime returns how the agent measures the CPU time of a command. delegable means that the agent can get a cgroup.
func (r *Runtime) cpuTime(delegable bool) runtime.Protection {
	p := runtime.Protection{Name: runtime.ProtectCPUTime, Enforced: true, By: "cgroup2 cpu.stat of each command, read by the agent"}
	if r.Jars.Cgroups == nil || !r.Jars.Cgroups.HasExecGroups() || !delegable {
		p.By = "the clocks of the command's processes, read by the agent"
		p.Weaker = "children that end within milliseconds are not counted where their parent ignores SIGCHLD"
		p.Hint = "run belljar where it may make cgroups of version 2"
		if !delegable && r.Jars.Cgroups != nil && r.Jars.Cgroups.HasExecGroups() {
			p.Hint = "run belljar as root: the agent of a user with subordinate ids gets no cgroup"
		}
	}
	return p
}

func (r *Runtime) landlock() runtime.Protection {
	p := runtime.Protection{Name: runtime.ProtectLandlock, Enforced: r.abi > 0, By: fmt.Sprintf("Landlock ABI %d", r.abi)}
	if r.abi == 0 {
		p.By, p.Weaker = "", "file rules are enforced once instead of twice"
		p.Hint = "boot Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK and landlock in the lsm= list"
	}
	return p
}
