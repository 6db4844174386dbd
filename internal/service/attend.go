package service

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
)

// errOverdue says that a command did not end when its agent should have ended it.
var errOverdue = errors.New("overdue")

// follow takes what the command prints into the log until it ends. The command is told to end by its agent when its time
// is over, by the run's context when the run is stopped; if it then outlives its grace, follow gives it up as overdue.
func (c *passage) follow() {
	if c.plan.request.Interactive && c.plan.request.Stdin == nil {
		c.run.attachStdin(c.proc)
		defer c.run.detachStdin(stdinRunEnded)
	} else if r := c.stdin(); r != nil {
		go feed(c.proc, r)
	}
	watched, giveUp := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	guarded := make(chan struct{})
	go func() {
		defer close(guarded)
		guard(c.run.ctx, c.plan.limits, c.opts.Slack, c.proc, ended, giveUp)
	}()
	exit, err := c.proc.Follow(watched, c.out.write)
	close(ended)
	<-guarded
	giveUp(nil)
	c.out.end()
	if c.end.err = err; err == nil {
		c.end.exit = &exit
	}
}

// stdin is what the command reads, if it was given with the request.
func (c *passage) stdin() io.Reader {
	if c.plan.request.Stdin != nil {
		return c.plan.request.Stdin
	}
	if text := c.plan.request.RunSpec.Stdin; text != "" {
		return strings.NewReader(text)
	}
	return nil
}

// guard ends a command that is to stop, and gives up one that does not end when it should.
func guard(
	stop context.Context, l belljar.Limits, slack time.Duration, proc *agent.Process, ended <-chan struct{},
	giveUp context.CancelCauseFunc,
) {
	grace := seconds(l.GraceSec)
	limit := time.NewTimer(seconds(l.TimeoutSec) + grace + slack)
	defer limit.Stop()
	select {
	case <-ended:
		return
	case <-limit.C:
	case <-stop.Done():
		_ = proc.End(grace) // if it cannot be told, the limit ends it
		limit.Reset(grace + slack)
		select {
		case <-ended:
			return
		case <-limit.C:
		}
	}
	giveUp(errOverdue)
}
