package service

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

// How long it takes until a command whose stream breaks again and again is joined once more, and how often that is tried
// where no stream can be had, for whatever reason: one that breaks just then looks the same as one that will never be.
const (
	reattachSoon  = 10 * time.Millisecond
	reattachLate  = time.Second
	reattachTries = 6
)

// output takes what the command prints into the log until it ends. A stream to its agent that breaks says nothing of the
// command, which may live on behind an engine that was away for a moment: it is joined again where its log stops, for as
// long as its sandbox lives and ctx does.
func (c *passage) output(ctx context.Context, fed *stdin.Pipe) (wire.Exit, error) {
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
			c.log.Warn("run's command cannot be joined again", "run_id", c.run.id, "err", gone)
			return exit, err
		}
		c.out.rewind()
		if proc.Started().From > c.process().Position() && !c.out.cut {
			c.out.lose(cutDamaged)
		}
		c.hold(proc)
		fed.Reattach(proc)
		if why := context.Cause(c.run.ctx); why != nil && !errors.Is(why, fault.ErrDetached) {
			c.endCommand(proc) // it may not have been told
		}
	}
}

// reattach joins the command over another stream. The error says why there is none.
func (c *passage) reattach(ctx context.Context, pause *time.Duration) (*agent.Process, error) {
	for tries := 1; ; tries++ {
		timer := time.NewTimer(*pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
		*pause = min(2**pause, reattachLate)
		proc, err := c.jar.Agent.Attach(ctx, c.id, c.process().Position())
		var refused *wire.Error
		switch {
		case err == nil, errors.As(err, &refused), errors.Is(err, agent.ErrProtocol), errors.Is(err, runtime.ErrGone):
			return proc, err
		case !errors.Is(err, agent.ErrDisconnected) && tries >= reattachTries:
			return nil, err
		}
	}
}

// process is the command, as it is attached to now.
func (c *passage) process() *agent.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

// hold takes another attachment to the command in place of the one that broke.
func (c *passage) hold(p *agent.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proc = p
}
