package main

import (
	"context"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
)

// openRuntimes opens the runtimes of this binary, the default first. A default that cannot be had is refused: never another
// one in its place.
func openRuntimes(c *console, cfg *config.Config, data *dataDir, d *daemon) ([]runtime.Runtime, error) {
	if err := checkRuntime(cfg.DefaultRuntime, []string{native.Name}); err != nil {
		return nil, err
	}
	installation, _, err := data.secret("installation", func() string { return "serve-" + randomHex(6) })
	if err != nil {
		return nil, err
	}
	if !belljar.ValidID(installation) {
		return nil, damagedSecret(data.in("installation"), fmt.Errorf("%.40q is not a name", installation))
	}
	agent, err := c.agent()
	if err != nil {
		return nil, err
	}
	defer agent.Close()
	rt, err := native.New(native.Options{Agent: agent, Installation: installation, Logger: d.log})
	if err != nil {
		return nil, fmt.Errorf("runtime %s: %w", native.Name, err)
	}
	d.closers = append(d.closers, rt.Close)
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	caps, err := rt.Probe(ctx)
	if err != nil {
		return nil, fmt.Errorf("runtime %s: %w", native.Name, err)
	}
	if !caps.Available {
		e := &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "runtime native does not work on this host", Hint: "belljar doctor says why, and how to fix it",
		}
		if len(caps.Reasons) > 0 {
			e.Message += ": " + caps.Reasons[0].Detail
		}
		return nil, e
	}
	if err := checkHost(cfg, caps); err != nil {
		return nil, err
	}
	if n, err := rt.SweepUntraced(ctx); err != nil || n > 0 {
		d.log.Warn("ended sandboxes whose files somebody has removed", "sandboxes", n, "err", err)
	}
	d.behind(func(ctx context.Context) {
		if n, err := rt.SweepOthers(ctx); err != nil || n > 0 {
			d.log.Info("removed what dead sandboxes of other installations left", "sandboxes", n, "err", err)
		}
	})
	d.runtime = rt.Name()
	d.reason = "Linux namespaces as root, the default; nothing else needs to be installed"
	if caps.Rootless {
		d.reason = "Linux namespaces without root, the default; belljar doctor says what root would add"
	}
	if origin, set := cfg.Set("SANDBOX_DEFAULT_RUNTIME"); set {
		d.reason = "set by " + origin
	}
	return []runtime.Runtime{rt}, nil
}
