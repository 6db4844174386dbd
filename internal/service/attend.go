package service

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/stdin"
)

// errOverdue says that a command did not end when its agent should have ended it.
var errOverdue = errors.New("overdue")

// follow takes what the command prints into the log until it ends. The command is told to end by its agent when its time
// is over, by the run's context when the run is stopped; if it then outlives its grace, follow gives it up as overdue.
func (c *passage) follow() {
	fed := stdin.NewPipe(c.proc)
	if c.plan.request.Interactive && c.plan.request.Stdin == nil {
		c.run.attachStdin(c.proc.Started(), fed)
		defer c.run.detachStdin(stdin.EndedWithRun) // the stream is closed by then: a command that is left keeps its input
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
	exit, err := c.output(watched, fed)
	close(ended)
	<-guarded
	giveUp(nil)
	if c.end.err = err; errors.Is(err, fault.ErrDetached) {
		return // what is held back comes again
	}
	c.out.end()
	if err == nil {
		c.end.exit = &exit
	}
}

// detach leaves a session's command running, for the next process to reattach to. What is on record is up to date.
func (c *passage) detach() {
	c.proc.Close()
	if err := c.enlist(c.run); err != nil {
		c.log.Error("run that goes on could not be put on record", "run_id", c.run.id, "err", err)
	}
	c.note(c.run)
	c.write(c.run)
	c.run.hush()
	c.plan.session.release()
	close(c.run.left)
}

// endCommand tells the agent to end the command, whatever becomes of this process.
func (c *passage) endCommand(p *agent.Process) {
	if err := p.End(seconds(c.plan.Limits.GraceSec)); err == nil {
		c.run.tell.Do(func() { close(c.run.told) })
	}
}

// stdin is what the command reads, if it was given with the request, and has not read yet.
func (c *passage) stdin() io.Reader {
	if c.plan.request.Stdin != nil {
		return c.plan.request.Stdin
	}
	told := c.proc.Started()
	if text := c.plan.request.RunSpec.Stdin; text != "" && !told.StdinClosed {
		return strings.NewReader(text[min(told.Stdin, int64(len(text))):])
	}
	return nil
}

// guard ends a command that is to stop, gives up one that does not end when it should, and lets its agent know meanwhile
// that its host is there.
func (c *passage) guard(ended <-chan struct{}, giveUp context.CancelCauseFunc) {
	l, stop := c.plan.Limits, c.run.ctx.Done()
	grace := seconds(l.GraceSec)
	age := time.Duration(c.process().Started().AgeMS) * time.Millisecond
	limit := time.NewTimer(max(seconds(l.TimeoutSec)-age, 0) + grace + c.slack)
	defer limit.Stop()
	var contact <-chan time.Time
	if c.lease > 0 && c.plan.session == nil { // a session's lease is the reaper's
		t := time.NewTicker(c.lease / 4)
		defer t.Stop()
		contact = t.C
	}
	for {
		select {
		case <-ended:
			return
		case <-contact:
			_ = c.process().Contact() // a stream that is broken tells whoever reads it
		case <-stop:
			if why := context.Cause(c.run.ctx); errors.Is(why, fault.ErrDetached) {
				giveUp(why)
				return
			}
			c.endCommand(c.process()) // if it cannot be told, the limit ends it
			limit.Reset(grace + c.slack)
			stop = nil
		case <-limit.C:
			giveUp(errOverdue)
			return
		}
	}
}
