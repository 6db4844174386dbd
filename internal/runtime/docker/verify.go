package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
)

// differences lists the requested settings that the engine's own report lacks; nothing if all are in force. An engine
// often leaves a field out if it does not know it, or cannot do what it accepts.
func differences(want *plan, got container.InspectResponse, f *facts) []string {
	if got.HostConfig == nil || got.Config == nil {
		return []string{"it does not say what it has done"}
	}
	v := &verdict{}
	v.marks(want, got)
	v.identity(want, got)
	v.namespaces(want.host, got.HostConfig)
	v.limits(want.host, got.HostConfig, f)
	v.files(want.host, got)
	return v.missing
}

type verdict struct{ missing []string }

func (v *verdict) hold(ok bool, format string, args ...any) {
	if !ok {
		v.missing = append(v.missing, fmt.Sprintf(format, args...))
	}
}

// marks compares the container's labels, image and restart policy.
func (v *verdict) marks(want *plan, got container.InspectResponse) {
	for name, value := range want.config.Labels {
		v.hold(got.Config.Labels[name] == value, "label %s %q", name, got.Config.Labels[name])
	}
	v.hold(got.Config.Image == want.config.Image, "image %q", got.Config.Image)
	v.hold(got.HostConfig.RestartPolicy.IsNone(), "restarts %q", got.HostConfig.RestartPolicy.Name)
}

func (v *verdict) identity(want *plan, got container.InspectResponse) {
	c, h := got.Config, got.HostConfig
	v.hold(c.User == want.config.User, "user %q", c.User)
	v.hold(slices.Equal(c.Entrypoint, want.config.Entrypoint) && slices.Equal(c.Cmd, want.config.Cmd), "entrypoint")
	v.hold(c.WorkingDir == want.config.WorkingDir && c.Hostname == want.config.Hostname && c.StopSignal == want.config.StopSignal, "working folder %q, host name %q, stop signal %q", c.WorkingDir, c.Hostname, c.StopSignal)
	v.hold(h.Init != nil && !*h.Init, "no init but the agent")
	v.hold(!c.Tty && c.OpenStdin && c.StdinOnce == want.config.StdinOnce, "stdin")
	v.hold(c.Healthcheck == nil || slices.Equal(c.Healthcheck.Test, []string{"NONE"}), "a health check of the image")
	for _, e := range want.config.Env {
		v.hold(slices.Contains(c.Env, e), "environment %s", e)
	}
	v.hold(dropsAll(h.CapDrop) && len(h.CapAdd) == 0, "capabilities dropped %v, added %v", h.CapDrop, h.CapAdd)
	v.hold(!h.Privileged, "not privileged")
	v.hold(len(h.GroupAdd) == 0, "no groups")
	for _, o := range want.host.SecurityOpt {
		name, _, _ := strings.Cut(o, "=")
		v.hold(slices.Contains(h.SecurityOpt, o), "security option %s", name)
		if profile, ok := strings.CutPrefix(o, "apparmor="); ok {
			v.hold(got.AppArmorProfile == profile, "apparmor profile %q", got.AppArmorProfile)
		}
	}
	v.hold(!slices.ContainsFunc(h.SecurityOpt, func(o string) bool { return strings.HasSuffix(o, "unconfined") }), "confinement")
}

// dropsAll reports whether a list of capabilities contains all of them. Some engines write them out.
func dropsAll(list []string) bool {
	const written = 11 // an unprivileged container usually has no more
	return slices.ContainsFunc(list, func(c string) bool { return strings.EqualFold(c, "ALL") || strings.EqualFold(c, "CAP_ALL") }) || len(list) >= written
}

func (v *verdict) namespaces(want, got *container.HostConfig) {
	v.hold(got.NetworkMode == "none", "network mode %q", got.NetworkMode)
	v.hold(slices.Equal(got.DNS, want.DNS) && slices.Equal(got.DNSSearch, want.DNSSearch) && slices.Equal(got.DNSOptions, want.DNSOptions), "no name servers but the agent's")
	v.hold(got.IpcMode == want.IpcMode, "ipc mode %q", got.IpcMode)
	v.hold(!got.PidMode.IsHost() && !got.PidMode.IsContainer(), "pid mode %q", got.PidMode)
	v.hold(!got.UTSMode.IsHost(), "uts mode %q", got.UTSMode)
	v.hold(!got.UsernsMode.IsHost(), "user namespace mode %q", got.UsernsMode)
	v.hold(got.CgroupnsMode != "host", "cgroup namespace %q", got.CgroupnsMode)
	v.hold(want.Runtime == "" || got.Runtime == want.Runtime, "oci runtime %q", got.Runtime)
	v.hold(len(got.Devices) == 0 && len(got.DeviceRequests) == 0 && len(got.DeviceCgroupRules) == 0, "no devices")
	v.hold(len(got.PortBindings) == 0 && !got.PublishAllPorts && len(got.Links) == 0, "no ports")
	for name, value := range got.Sysctls { // not every engine reports them
		v.hold(want.Sysctls[name] == value, "sysctl %s", name)
	}
	for name, value := range want.Sysctls {
		v.hold(len(got.Sysctls) == 0 || got.Sysctls[name] == value, "sysctl %s", name)
	}
}

func (v *verdict) limits(want, got *container.HostConfig, f *facts) {
	v.hold(want.CgroupParent == "" || got.CgroupParent == want.CgroupParent, "cgroup parent %q", got.CgroupParent)
	if f.MemoryLimit {
		v.hold(got.Memory == want.Memory, "memory %d", got.Memory)
		v.hold(!f.SwapLimit || got.MemorySwap == want.MemorySwap, "memory and swap %d", got.MemorySwap)
		v.hold(got.OomKillDisable == nil || !*got.OomKillDisable, "the out-of-memory killer")
	}
	if f.PidsLimit {
		v.hold(got.PidsLimit != nil && *got.PidsLimit == *want.PidsLimit, "pids")
	}
	if f.CPUCfsQuota {
		v.hold(got.NanoCPUs == want.NanoCPUs, "cpu %d", got.NanoCPUs)
	}
	for _, u := range want.Ulimits {
		v.hold(slices.ContainsFunc(got.Ulimits, func(g *container.Ulimit) bool { return g != nil && *g == *u }), "ulimit %s", u.Name)
	}
}

func (v *verdict) files(want *container.HostConfig, got container.InspectResponse) {
	h := got.HostConfig
	v.hold(h.ReadonlyRootfs, "a read-only image")
	v.hold(len(h.Binds) == 0 && len(h.VolumesFrom) == 0, "no mounts of its host")
	v.hold(maps.Equal(h.Tmpfs, want.Tmpfs), "memory file systems")
	v.hold(h.LogConfig.Type == "none", "log driver %q", h.LogConfig.Type)
	for _, place := range want.MaskedPaths {
		v.hold(slices.Contains(h.MaskedPaths, place), "masked %s", place)
	}
	for _, place := range want.ReadonlyPaths {
		v.hold(slices.Contains(h.ReadonlyPaths, place), "read-only %s", place)
	}
	there := 0
	for _, m := range got.Mounts {
		asked := slices.ContainsFunc(want.Mounts, func(w mount.Mount) bool {
			source := m.Source
			if m.Type == mount.TypeVolume {
				source = m.Name
			}
			return m.Type == w.Type && source == w.Source && m.Destination == w.Target && !m.RW
		})
		if asked {
			there++
		}
		v.hold(asked || m.Type == mount.TypeTmpfs, "nothing mounted on %s", m.Destination)
	}
	v.hold(there == len(want.Mounts), "the agent's volume, and the layers")
}
