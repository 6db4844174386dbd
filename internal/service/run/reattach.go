package run

import (
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/stdin"
)

// The first and the longest pause before reattaching to a command whose stream breaks repeatedly, and the number of attempts while no
// stream can be opened: a stream that breaks immediately looks like one that never works again.
const (
	reattachSoon  = 10 * time.Millisecond
	reattachLate  = time.Second
	reattachTries = 6
)

// output copies the command's output into the log until it ends. If the stream to its agent breaks, the command may still run: an engine
// may have been unavailable briefly. output then reattaches at the end of the log, as long as the sandbox and ctx live.
func (c *execution) output(ctx context.Context, fed *stdin.Pipe) (wire.Exit, error) {
	pause := reattachSoon
	for {
		begun := time.Now()
		exit, err := c.process().Follow(ctx, c.out.write)
		if err == nil || ctx.Err() != nil || !errors.Is(err, agent.ErrDisconnected) {
			return exit, err
		}
		if time.Since(begun) > reattachLate {
			pause = reattachSoon
		}
		proc, gone := c.reattach(ctx, &pause)
		if ctx.Err() != nil {
			if proc != nil {
				proc.Close()
			}
			return exit, context.Cause(ctx)
		}
		if gone != nil {
			c.runner.log.Warn("run's command cannot be reattached to", "run_id", c.run.id, "err", gone)
			return exit, err
		}
		c.out.rewind()
		if proc.Started().From > c.process().Position() && !c.out.cut {
			c.out.truncate(cutDamaged)
		}
		c.hold(proc)
		fed.Reattach(proc)
		if why := context.Cause(c.run.ctx); why != nil && !errors.Is(why, fault.ErrDetached) {
			c.endCommand(proc) // the agent may not have received it
		}
	}
}

// reattach attaches to the command over a new stream, or returns why it cannot.
func (c *execution) reattach(ctx context.Context, pause *time.Duration) (*agent.Process, error) {
	for tries := 1; ; tries++ {
		select {
		case <-time.After(*pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		*pause = min(2**pause, reattachLate)
		proc, err := c.box.Agent.Attach(ctx, c.id, c.process().Position())
		var refused *wire.Error
		switch {
		case err == nil, errors.As(err, &refused), errors.Is(err, agent.ErrProtocol), errors.Is(err, runtime.ErrGone):
			return proc, err
		case !errors.Is(err, agent.ErrDisconnected) && tries >= reattachTries:
			return nil, err
		}
	}
}

// process returns the current attachment to the command.
func (c *execution) process() *agent.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

// hold replaces the broken attachment to the command.
func (c *execution) hold(p *agent.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proc = p
}
