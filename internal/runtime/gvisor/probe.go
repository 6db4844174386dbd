//go:build linux

package gvisor

import (
	"context"
	"os"
	"time"

	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/runtime"
)

// start is about how long a cold start takes.
const start = 150 * time.Millisecond

// Probe implements [runtime.Runtime].
func (r *Runtime) Probe(context.Context) (runtime.Capabilities, error) { return r.capabilities(), nil }

// capabilities is what this host can enforce as far as looking tells.
func (r *Runtime) capabilities() runtime.Capabilities {
	c := runtime.Capabilities{
		Available: true, State: runtime.StateSupported, Isolation: runtime.IsolationUserKernel, Version: r.runsc.version,
		Rootless: os.Geteuid() != 0, OOMScope: "sandbox", AgentUID: "separate",
		Snapshots: true, Pause: true, HostImage: true, Unpacked: true, Start: start,
	}
	if r.runsc.reason != nil {
		c.Available = false
		c.Reasons = append(c.Reasons, *r.runsc.reason)
	}
	identity := runtime.Protection{
		Name: runtime.ProtectIdentity, Enforced: true,
		By: "user namespaces, a host uid range of its own for each sandbox", Hint: r.ids.Hint,
	}
	if r.ids.Mode == idmap.ModeSingle {
		c.Available = false
		c.Reasons = append(c.Reasons, runtime.Reason{
			Code: "host_prerequisite_missing", Step: stepUserNS, Detail: errFewIDs.Error(), Hint: r.ids.Hint,
		})
		identity.Enforced, identity.By = false, ""
	}
	c.Protections = append([]runtime.Protection{
		{Name: runtime.ProtectFilesystem, Enforced: true, By: "gVisor's own kernel, which has no file of the host; a gofer in a root of its own, read-only"},
		{Name: runtime.ProtectNetwork, Enforced: true, By: "gVisor's own kernel with a loopback only, in an empty network namespace"},
		{Name: runtime.ProtectSeccomp, Enforced: true, By: "gVisor's own kernel behind its own seccomp allow-list, for the host's system calls"},
		identity,
		{Name: runtime.ProtectWallTime, Enforced: true, By: "timers in the agent and in the service"},
		{Name: runtime.ProtectDisk, Enforced: true, By: "memory file systems with size and inode caps"},
		{
			Name: runtime.ProtectLandlock, Weaker: "the host's file rules have no use here",
			Hint: "nothing is missing: gVisor's kernel has no file of the host",
		},
	}, r.limited()...)
	return c
}
