package daemon

import (
	"github.com/belljar/belljar/internal/image/registry"
	"github.com/belljar/belljar/internal/runtime/docker"
)

func openDocker(h *Host, o openOptions) (unit, error) {
	rt, err := docker.New(docker.Options{
		Host: o.cfg.DockerHost, OCIRuntime: o.cfg.DockerOCIRuntime, Seccomp: o.cfg.DockerSeccomp, AppArmor: o.cfg.DockerAppArmorProfile,
		CgroupParent: o.cfg.DockerCgroupParent,
		Keychain:     registry.Keychain(), Agent: h.agentFor, Installation: o.installation, Logger: o.log,
	})
	if err != nil {
		return unit{}, err
	}
	return unit{Runtime: rt, close: rt.Close, sweep: rt.Sweep, others: rt.SweepOthers}, nil
}
