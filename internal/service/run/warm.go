package run

import (
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// WarmOptions configures interpreters that are started in advance.
type WarmOptions struct {
	On bool
	// Preload lists modules that Python imports while it waits, by image name.
	Preload map[string][]string
}

// leastTasks is the minimum process limit of a sandbox with a waiting interpreter, whose processes count.
const leastTasks = 64

// admitWarm decides whether the run's program may use a waiting interpreter, and whether sandboxes of the pool start one. The agent decides
// the rest.
func (s *admitter) admitWarm(p *plan) {
	req := p.request
	if !s.warm.On || req.Warm == belljar.WarmOff || req.Context != "" || req.Shell != nil || p.build != nil {
		return
	}
	if len(p.argv) < 2 || !slices.Contains([]string{"python3", "node"}, p.argv[0]) || strings.HasPrefix(p.argv[1], "-") {
		return
	}
	if p.MemoryMB() < runtime.ParkMB || min(p.Limits.Pids, p.Limits.NProc) < leastTasks {
		return
	}
	p.warm = &wire.Warm{Preload: s.warm.Preload[p.Image.Ref]}
	// An interpreter in a pool's sandbox has nothing of a caller, and waits for code that many callers send.
	if p.session != nil || req.Code == "" || len(req.Env)+len(p.Env) > 0 || p.Broker != nil || p.Fetch != "" || p.Caps.AgentUID == "shared" {
		return
	}
	e := p.command("", box.At(p.Image))
	p.Park = &runtime.Park{Argv: e.Argv, Env: e.Env, Cwd: e.Cwd, UID: e.UID, GID: e.GID, Preload: p.warm.Preload}
	if e.Argv[0] == "node" {
		p.Park.Rlimits = e.Rlimits // it cannot set them itself
	}
}

// noteWarm records in the run whether its interpreter had waited.
func (c *execution) noteWarm() {
	if c.plan.warm == nil {
		return
	}
	warm := c.proc.Started().Warm
	c.run.mu.Lock()
	c.run.state.Warm = &warm
	c.run.mu.Unlock()
	result := map[bool]string{false: "miss", true: "hit"}
	c.runner.count(event.WarmStart, c.plan.Host.Name(), result[warm], 1)
}
