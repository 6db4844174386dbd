package run

import (
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/outcome"
	"github.com/belljar/belljar/internal/store"
)

// usageTime bounds the reading of a sandbox's usage.
const usageTime = 2 * time.Second

// hitsBrief is the duration below which a successful command cannot have reached a limit of a session's sandbox: reading the sandbox's
// counters costs more than many a command.
const hitsBrief = 100 * time.Millisecond

// countBefore reads the counters of a session's sandbox before the command, so that the run is not charged for others.
func (c *execution) countBefore(ctx context.Context) {
	if c.plan.session == nil {
		c.box.Shared.Most(c.end.Limits)
		c.box.Shared.New()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	c.end.Before = c.box.Shared.Before(ctx, c.box)
}

// measure reads the sandbox's usage, and why it died if the agent did not report the command's end.
func (c *execution) measure(ctx context.Context) {
	p, e := c.plan, &c.end
	ctx = context.WithoutCancel(ctx)
	if e.Exit == nil && !e.Overdue && !errors.Is(e.Err, fault.ErrDefect) && (e.Started || errors.Is(e.Err, agent.ErrDisconnected) || errors.Is(e.Err, runtime.ErrGone)) {
		e.Sandbox = box.ExitOf(ctx, c.box)
	}
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	if p.session == nil {
		e.Usage, c.cpu = c.box.Shared.Now(ctx, c.box), c.box.Shared.CPU()
		if p.build != nil && !e.Building {
			e.Usage = outcome.WithoutBuild(e.Before, e.Usage)
		}
		return
	}
	if e.Exit != nil && e.Exit.Cause == wire.CauseExited && e.Exit.Signal == 0 && e.Exit.Code == 0 &&
		e.Exit.WallMS < float64(hitsBrief.Milliseconds()) {
		return
	}
	e.Usage = outcome.Since(e.Before, c.box.Shared.Now(ctx, c.box), box.MaxProcesses(e.Limits) < box.MaxProcesses(p.session.Placement().Limits))
}

// charge returns the charge at the end of a run, by the host's figures: all that its sandbox has used so far, unless that is a session of
// another user.
func (c *execution) charge(own float64) (used store.Charge) {
	if c.cpu != nil {
		used.CPUSeconds = c.cpu.Seconds()
	}
	if x := c.plan.session; x != nil && c.box != nil && x.Owner() == c.run.owner {
		used = c.box.Shared.Charge(c.box.Network, own)
	}
	return used
}
