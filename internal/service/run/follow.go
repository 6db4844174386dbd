package run

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/stdin"
)

// follow copies the command's output into the log until it ends. The agent ends a command at its timeout, and follow ends a command whose
// run is stopped. If the command outlives its grace period, it is overdue and follow stops following it.
func (c *execution) follow() {
	fed := stdin.NewPipe(c.proc)
	if c.plan.request.Interactive && c.plan.request.Input == nil {
		in := c.run.attachStdin(c.proc.Started(), fed)
		defer func() { in.Leave(c.end.Err) }()
	} else if r := c.stdin(); r != nil {
		go stdin.Feed(fed, r)
	}
	defer fed.End()
	watched, giveUp := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	guarded := make(chan struct{})
	go func() {
		defer close(guarded)
		c.guard(ended, giveUp)
	}()
	var exit wire.Exit
	c.end.Err = fault.Contain(c.runner.log.With("run_id", c.run.id), func() (err error) {
		if exit, err = c.output(watched, fed); !errors.Is(err, fault.ErrDetached) { // of which an incomplete character is sent again
			c.out.end()
		}
		return err
	})
	close(ended)
	<-guarded
	giveUp(nil)
	if c.end.Err == nil {
		c.end.Exit = &exit
	} else if errors.Is(c.end.Err, fault.ErrDefect) {
		c.out.truncate(cutFailed)
	}
}

// detach leaves a session's command running, for the next process to reattach to. Its record is up to date.
func (c *execution) detach() {
	c.proc.Close()
	c.endNetwork()
	c.runner.note(c.run)
	if err := c.runner.flush(c.run, true); err != nil {
		c.runner.log.Error("detached run cannot be recorded", "run_id", c.run.id, "err", err)
	}
	c.run.stopUpdates()
	c.plan.session.Release()
	close(c.run.detached)
}

// endCommand orders the agent to end the command: it then ends even if this process dies.
func (c *execution) endCommand(p *agent.Process) {
	if err := p.End(clock.Seconds(c.plan.Limits.GraceSec)); err == nil {
		c.run.sendEnd.Do(func() { close(c.run.endSent) })
	}
}

// stdin returns the part of the request's input that the command has not read yet.
func (c *execution) stdin() io.Reader {
	if c.plan.request.Input != nil {
		return c.plan.request.Input
	}
	started := c.proc.Started()
	if text := c.plan.request.Stdin; text != "" && !started.StdinClosed {
		return strings.NewReader(text[min(started.Stdin, int64(len(text))):])
	}
	return nil
}

// keepUp renews the lease of an execution's agent. It blocks while the agent reads nothing.
func keepUp(c *execution, ended <-chan struct{}) {
	t := time.NewTicker(c.runner.lease / 4)
	defer t.Stop()
	for {
		select {
		case <-ended:
			return
		case <-t.C:
			_ = c.process().Contact() // the reader of the stream detects that it is broken
		}
	}
}

// guard ends a command whose run is stopped, and stops following a command that does not end in time. It never waits for an agent: an
// agent that a program took over may read nothing.
func (c *execution) guard(ended <-chan struct{}, giveUp context.CancelCauseFunc) {
	l, stop := c.plan.Limits, c.run.ctx.Done()
	grace := clock.Seconds(l.GraceSec)
	age := time.Duration(c.process().Started().AgeMS) * time.Millisecond
	limit := time.After(max(clock.Seconds(l.TimeoutSec)-age, 0) + grace + c.runner.slack)
	if c.runner.lease > 0 && c.plan.session == nil { // a session's lease is the reaper's
		go keepUp(c, ended)
	}
	for {
		select {
		case <-ended:
			return
		case <-stop:
			if why := context.Cause(c.run.ctx); errors.Is(why, fault.ErrDetached) {
				giveUp(why)
				return
			}
			go c.endCommand(c.process()) // if that fails, or blocks, the limit ends it
			limit = time.After(grace + c.runner.slack)
			stop = nil
		case <-limit:
			giveUp(fault.ErrOverdue)
			return
		}
	}
}
