package daemon

import (
	"io"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/internal/runtime/gvisor"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// platformRuntime is the default runtime of commands and servers.
const platformRuntime = native.Name

func openers() []opener {
	return []opener{{native.Name, openNative}, {gvisor.Name, openGVisor}, {docker.Name, openDocker}}
}

func openNative(h *Host, o openOptions) (unit, error) {
	agent, err := h.Agent()
	if err != nil {
		return unit{}, err
	}
	rt, err := native.New(o.rack(agent))
	if err != nil {
		return unit{}, err
	}
	rt.NoPTYs = !o.cfg.NativePTYs
	return unit{rt, rt.Close, rt.Sweep, rt.SweepOthers, rt.SweepUntraced, rt.Prepare}, nil
}

func openGVisor(h *Host, o openOptions) (unit, error) {
	agent, err := h.Agent()
	if err != nil {
		return unit{}, err
	}
	rt, err := gvisor.New(gvisor.Options{
		Path: o.cfg.GVisorPath, Platform: o.cfg.GVisorPlatform, Options: o.rack(agent),
	})
	if err != nil {
		return unit{}, err
	}
	return unit{rt, rt.Close, rt.Sweep, rt.SweepOthers, rt.SweepUntraced, nil}, nil
}

// rack returns the options that native and gvisor share.
func (o openOptions) rack(agent io.Reader) rack.Options {
	return rack.Options{
		Agent: agent, Installation: o.installation, NodeMemory: o.nodeMemory(), NodeMemoryWeak: o.weak(runtime.ProtectMemory), Logger: o.log,
	}
}
