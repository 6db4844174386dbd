//go:build linux

package gvisor

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
)

// start is the approximate duration of a cold start.
const start = 150 * time.Millisecond

// Probe implements [runtime.Runtime].
func (r *Runtime) Probe(context.Context) (runtime.Capabilities, error) { return r.capabilities(), nil }

// Test implements [runtime.Tester].
func (r *Runtime) Test(ctx context.Context) (runtime.Capabilities, error) {
	caps := r.capabilities()
	if !caps.Available {
		return caps, nil
	}
	return runtime.TestSandbox(ctx, r, caps)
}

// capabilities returns the protections that this host can enforce, as far as that shows without making a sandbox.
func (r *Runtime) capabilities() runtime.Capabilities {
	runsc := r.runsc.find()
	c := runtime.Capabilities{
		Available: true, State: runtime.StateSupported, Isolation: runtime.IsolationUserKernel, Version: runsc.version,
		Rootless: os.Geteuid() != 0, OOMScope: "sandbox", AgentUID: "separate",
		Snapshots: true, Pause: true, HostImage: true, Unpacked: true, LimitMemory: true, Relay: true, Layers: true, Start: start, Disk: r.NoDisk.Detail == "", NoDisk: r.NoDisk,
	}
	for _, why := range []*runtime.Reason{runsc.reason, kvmReason(r.platform, "/dev/kvm")} {
		if why != nil {
			c.Refuse(*why)
		}
	}
	identity := r.Identity()
	if r.SingleID() {
		c.Refuse(runtime.Reason{
			Code: "host_prerequisite_missing", Step: jar.StepUserNS, Detail: errFewIDs.Error(), Hint: r.Jars.IDs.Hint,
		})
		identity.Enforced, identity.By = false, ""
	}
	c.Protections = append([]runtime.Protection{
		{Name: runtime.ProtectFilesystem, Enforced: true, By: "gVisor's own kernel, which has no file of the host; a gofer in a root of its own, read-only"},
		{Name: runtime.ProtectNetwork, Enforced: true, By: "gVisor's own kernel with a loopback only, in an empty network namespace"},
		{Name: runtime.ProtectSeccomp, Enforced: true, By: "gVisor's own kernel, with a seccomp allow-list for the host's system calls"},
		identity,
		runtime.WallTime(),
		runtime.MemoryDisk(),
		{
			Name: runtime.ProtectCPUTime, Enforced: true, By: "the clocks of the command's processes in gVisor's own kernel, read by the agent",
			Weaker: "gVisor looks every 10 ms at what runs: a program that sleeps just then is not charged",
			Hint:   "the native runtime counts exactly",
		},
		{
			Name: runtime.ProtectLandlock, Weaker: "the host's file rules have no use here",
			Hint: "nothing is missing: gVisor's kernel has no file of the host",
		},
	}, r.limited()...)
	return c
}

// kvmReason returns why the platform is not available without a device, nil if it is. The sentry runs as the user nobody, and can open
// only a device that every user can open.
func kvmReason(platform, device string) *runtime.Reason {
	if platform != PlatformKVM {
		return nil
	}
	info, err := os.Stat(device)
	switch {
	case err != nil:
		return &runtime.Reason{
			Code: "host_prerequisite_missing", Step: jar.StepDev, Detail: fmt.Sprintf("platform kvm: %v", err),
			Hint: "use the platform systrap, which needs no KVM",
		}
	case info.Mode().Perm()&0o006 != 0o006:
		return &runtime.Reason{
			Code: "host_permission_denied", Step: jar.StepDev, Detail: fmt.Sprintf("platform kvm: not every user can open %s", device),
			Hint: "chmod 666 " + device + ", or use the platform systrap, which needs no KVM",
		}
	}
	return nil
}
