package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// forever is longer than any run may take: its own time limit ends the wait.
const forever = 365 * 24 * time.Hour

// acceptTime bounds how long a run may take to be accepted.
const acceptTime = time.Minute

// finisher is an engine that starts a run and waits for its end in one step, and then returns the run's id even if the
// call was cancelled.
type finisher interface {
	Finish(ctx context.Context, req belljar.RunRequest, wait time.Duration) (belljar.Run, *belljar.Output, error)
}

// finish starts a run and waits for its end, for wait at most. If the wait is over first, out is nil. When the call is
// cancelled meanwhile, so is the run, unless its client has only stopped waiting.
func (c *call) finish(spec belljar.RunSpec, wait time.Duration) (belljar.Run, *belljar.Output, error) {
	spec.Labels = map[string]string{label: c.id}
	req := belljar.RunRequest{RunSpec: spec}
	if f, ok := c.Runs().(finisher); ok && c.token == nil && wait > 0 {
		run, out, err := f.Finish(c, req, wait)
		if c.Err() != nil && run.ID != "" {
			return run, nil, c.abandon(run)
		}
		return run, out, err
	}
	run, err := c.start(req)
	if err != nil || wait <= 0 {
		return run, nil, err
	}
	return c.await(run, wait)
}

// start starts a run. That it is cancelled meanwhile is found out afterwards: its id must not be lost.
func (c *call) start(req belljar.RunRequest) (belljar.Run, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(c), acceptTime)
	defer stop()
	run, err := c.Runs().Start(ctx, req)
	if err == nil && c.Err() != nil {
		return run, c.abandon(run)
	}
	return run, err
}

// await waits for a run's end, for wait at most, and tells the client how it gets on.
func (c *call) await(run belljar.Run, wait time.Duration) (belljar.Run, *belljar.Output, error) {
	waiting, stop := context.WithTimeout(c, wait)
	defer stop()
	log := c.Runs().Frames(waiting, run.ID, 1)
	if c.token != nil {
		p := c.report(run)
		defer p.close()
		log = p.watch(log)
	}
	out, err := belljar.Printed(log)
	switch {
	case err == nil:
		run, err = c.Runs().Get(context.WithoutCancel(c), run.ID)
		return run, &out, err
	case c.Err() != nil:
		return run, nil, c.abandon(run)
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		run, err = c.Runs().Get(c, run.ID)
		if err != nil || !run.Phase.Terminal() {
			return run, nil, err
		}
		out, err = belljar.Printed(c.Runs().Frames(c, run.ID, 1)) // it ended just now
		return run, &out, err
	}
	return run, nil, err
}

// abandon decides what becomes of a run whose call was cancelled.
func (c *call) abandon(run belljar.Run) error {
	over := errors.Is(context.Cause(c), errOver) || c.life.Err() != nil
	switch {
	case !over && c.impatient(c.request):
		c.mu.Lock()
		c.late = append(c.late, lateRun{id: run.ID, session: run.SessionID})
		c.mu.Unlock()
		return context.Cause(c)
	case over && run.SessionID != "":
		return errOver // it ends with its session, or goes on with it
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(c), closeTime)
	defer stop()
	if err := gone(c.Runs().Cancel(ctx, run.ID)); err != nil {
		c.kit.log.Warn("run of a cancelled call could not be cancelled", "run_id", run.ID, "err", err)
	}
	return context.Cause(c)
}

// lateRun is a run that goes on though its client stopped waiting for it.
type lateRun struct{ id, session string }

// mostLate is how many bytes of each stream of a late run are told.
const mostLate = 4 << 10

// told is what a result says of runs that an earlier call did not wait for; "" if there are none. One-shot runs are told
// of until they have ended, others once: they can be read.
func (c *call) told() string {
	c.mu.Lock()
	late := c.late
	c.late = nil
	c.mu.Unlock()
	var b strings.Builder
	for _, l := range late {
		run, err := c.Runs().Get(c, l.id)
		switch {
		case err != nil:
		case l.session != "":
			fmt.Fprintf(&b, "\n\nnote: an earlier call was given up, but its command goes on as exec_id %s in sandbox_id %s (%s): "+
				"read what it printed with sandbox_exec_read, or wait for it with sandbox_exec_wait.", run.ID, l.session, run.Phase)
		case run.Phase.Terminal():
			out, err := belljar.Printed(c.Runs().Frames(c, run.ID, 1))
			if err != nil {
				continue
			}
			stdout, stderr := streams(&out, mostLate)
			fmt.Fprintf(&b, "\n\nnote: an earlier call was given up, but its run %s went on and has ended: %s\n%s%s%s", run.ID, headline(run),
				stdout.section("stdout"), stderr.section("stderr"), lost(stdout, stderr, "All of it is the resource "+outputURI(run.ID)+"."))
		default:
			c.mu.Lock()
			c.late = append(c.late, l)
			c.mu.Unlock()
			fmt.Fprintf(&b, "\n\nnote: an earlier call was given up, but its run %s goes on (%s); what it prints is the resource %s.",
				run.ID, run.Phase, outputURI(run.ID))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// How often a client that wants to know hears of a run.
const (
	reportEvery = time.Second      // while it prints
	reportQuiet = 10 * time.Second // while it does not
)

// progress tells a client how a run gets on.
type progress struct {
	c     *call
	begun time.Time
	stop  chan struct{}
	done  chan struct{}

	mu   sync.Mutex
	news string // since the last notification; "" is none
}

// report begins to tell of a run; its id first, for clients that stop waiting.
func (c *call) report(run belljar.Run) *progress {
	p := &progress{c: c, begun: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	word := "run"
	if run.SessionID != "" {
		word = "exec"
	}
	go p.run(fmt.Sprintf("%s %s %s", word, run.ID, run.Phase))
	return p
}

// run tells of a run, beginning with first. A client that does not read keeps it waiting, and nobody else.
func (p *progress) run(first string) {
	defer close(p.done)
	p.tell(first)
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			p.mu.Lock()
			news := p.news
			p.news = ""
			p.mu.Unlock()
			if news == "" && now.Sub(last) < reportQuiet {
				continue
			}
			if news == "" {
				news = fmt.Sprintf("running for %v", now.Sub(p.begun).Round(time.Second))
			}
			last = now
			p.tell(news)
		}
	}
}

// tell sends one notification. A client that is gone needs none.
func (p *progress) tell(message string) {
	_ = p.c.session.NotifyProgress(p.c, &sdk.ProgressNotificationParams{
		ProgressToken: p.c.token, Message: message, Progress: float64(time.Since(p.begun).Milliseconds()+1) / 1000,
	})
}

// watch looks at a log on its way.
func (p *progress) watch(log iter.Seq2[belljar.Frame, error]) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for f, err := range log {
			if err == nil {
				p.note(f)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

func (p *progress) note(f belljar.Frame) {
	news := ""
	switch f.Type {
	case belljar.FrameStdout, belljar.FrameStderr:
		news = lastLine(f.Output)
	case belljar.FrameEvent:
		if phase, ok := f.Data["phase"].(string); ok && f.Event == belljar.EventPhase {
			news = phase
		}
	}
	if news != "" {
		p.mu.Lock()
		p.news = news
		p.mu.Unlock()
	}
}

// close ends the notifications: none comes behind the result. Nobody reads that of a cancelled call.
func (p *progress) close() {
	close(p.stop)
	select {
	case <-p.done:
	case <-p.c.Done():
	}
}

// mostLine is how much of a line a notification has, in bytes.
const mostLine = 200

// lastLine is the last line of an output that says something.
func lastLine(out []byte) string {
	out = bytes.TrimSpace(out)
	if i := bytes.LastIndexAny(out, "\r\n"); i >= 0 {
		out = out[i+1:]
	}
	if len(out) > mostLine {
		out = api.WholeEnd(out[:mostLine])
	}
	if !utf8.Valid(out) {
		return ""
	}
	return string(out)
}
