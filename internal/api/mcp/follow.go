package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/char"
)

// forever is longer than any run may take: the run's own time limit ends the wait.
const forever = 365 * 24 * time.Hour

// acceptTime bounds how long the engine may take to accept a run.
const acceptTime = time.Minute

// finisher is implemented by an engine that starts a run and waits for its end in one step. It returns the run's id even if
// the call was cancelled.
type finisher interface {
	Finish(ctx context.Context, req belljar.RunRequest, wait time.Duration) (belljar.Run, *belljar.Output, error)
}

// finish starts a run and waits at most wait for its end. If the run continues, out is nil. A cancelled call cancels the run,
// unless its client only stopped waiting.
func (c *call) finish(spec belljar.RunSpec, wait time.Duration) (run belljar.Run, out *belljar.Output, err error) {
	spec.Labels = map[string]string{label: c.session.id}
	req := belljar.RunRequest{RunSpec: spec}
	if f, ok := c.service.Runs().(finisher); ok && c.token == nil && wait > 0 {
		run, out, err = f.Finish(c, req, wait)
	} else if run, err = c.start(req); err == nil && wait > 0 {
		run, out, err = c.await(run, wait)
	}
	switch {
	case run.ID != "" && (c.Err() != nil || c.stopping(err)):
		run, out, err = c.interrupted(run, err)
	case err == nil && out == nil && wait > 0: // it may have ended just after the wait
		run, out, err = c.current(c, run.ID)
	}
	c.undone = run.Phase.Terminal() && run.StartedAt == nil && run.ExitCode == nil && run.ReasonCode != belljar.ReasonCompileFailed
	return run, out, err
}

// start starts a run. It is not cancelled with the call: the run's id would be lost.
func (c *call) start(req belljar.RunRequest) (belljar.Run, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(c), acceptTime)
	defer stop()
	return c.service.Runs().Start(ctx, req)
}

// await waits at most wait for a run's end, and reports its progress to the client.
func (c *call) await(run belljar.Run, wait time.Duration) (belljar.Run, *belljar.Output, error) {
	waiting, stop := context.WithTimeout(c, wait)
	defer stop()
	log := c.service.Runs().Frames(waiting, run.ID, 1)
	if c.token != nil {
		p := c.runProgress(run)
		defer p.close()
		log = p.watch(log)
	}
	out, err := belljar.Printed(log)
	switch {
	case err == nil:
		run, err = c.service.Runs().Get(context.WithoutCancel(c), run.ID)
		return run, &out, err
	case c.Err() == nil && !c.stopping(err) && errors.Is(waiting.Err(), context.DeadlineExceeded):
		return run, nil, nil
	}
	return run, nil, err
}

// current returns a run as it is now, with its output if it has ended; else out is nil.
func (c *call) current(ctx context.Context, id string) (run belljar.Run, out *belljar.Output, err error) {
	run, err = c.service.Runs().Get(ctx, id)
	if err != nil || !run.Phase.Terminal() {
		return run, nil, err
	}
	printed, err := belljar.Printed(c.service.Runs().Frames(ctx, id, 1))
	return run, &printed, err
}

// stopping reports whether the server stops, which is why a call ends, or waiting failed with err.
func (c *call) stopping(err error) bool {
	return belljar.CodeOf(cmp.Or(context.Cause(c), err)) == belljar.CodeRuntimeUnavailable
}

// interrupted returns the answer of a call that no longer waits for a run. If the server stops, the run has ended or continues.
func (c *call) interrupted(run belljar.Run, err error) (belljar.Run, *belljar.Output, error) {
	if !c.stopping(err) {
		return run, nil, c.abandon(run)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(c), closeTime)
	defer stop()
	if last, out, err := c.current(ctx, run.ID); err == nil && out != nil {
		return last, out, nil
	}
	e := &belljar.Error{Code: belljar.CodeCanceled, Details: map[string]any{"run_id": run.ID}}
	const stopped = "the server stopped, or was out of reach, during the call, but its "
	e.Message = stopped + fmt.Sprintf("run %s continues", run.ID)
	e.Hint = "do not make the call again; once the server is back, results report the run until it has ended"
	switch {
	case c.session.terms.InMode() != belljar.ToolsCode && c.version >= firstSessionless:
		e.Hint = "do not make the call again: its run is on record" // no later call is known to be this client's
	case c.session.terms.InMode() != belljar.ToolsCode:
		c.session.detach(detachedRun{run, "an earlier call was cut off, but its"}) // over stdio this process outlives the server
	default:
		e.Message = stopped + fmt.Sprintf("command continues as exec_id %s in sandbox_id %s", run.ID, cmp.Or(run.SessionID, run.ID))
		e.Hint = "do not make the call again; once the server is back, read what the command prints with sandbox_exec_read, or wait for it with sandbox_exec_wait"
	}
	return run, nil, e
}

// abandon cancels the run of a cancelled call, or detaches it if the client only stopped waiting. It returns the call's error.
func (c *call) abandon(run belljar.Run) error {
	over := errors.Is(context.Cause(c), errSessionEnded) || c.session.life.Err() != nil
	switch {
	case !over && c.session.clientTimedOut(c.request):
		c.session.detach(detachedRun{run, "an earlier call was abandoned, but its"})
		return context.Cause(c)
	case over && run.SessionID != "":
		return errSessionEnded // the run ends or continues with its sandbox
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(c), closeTime)
	defer stop()
	if err := ignoreNotFound(c.service.Runs().Cancel(ctx, run.ID)); err != nil {
		c.session.kit.log.Warn("run of a cancelled call could not be cancelled", "run_id", run.ID, "err", err)
	}
	return context.Cause(c)
}

// detachedRun is a run that a later result reports, as it was when that was known.
type detachedRun struct {
	belljar.Run
	why string // the beginning of the note
}

// detach records a run that continues after its client stopped waiting.
func (s *clientSession) detach(runs ...detachedRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = append(s.detached, runs...)
}

// recall makes the next result report the runs that were in progress when an earlier server ended: each began before this one, and has
// not ended, or has ended since. It finds them among the user's newest.
func (s *clientSession) recall(began time.Time) error {
	ctx, stop := context.WithTimeout(context.Background(), closeTime)
	defer stop()
	page, err := s.client.Service("", "").Runs().List(ctx, belljar.RunQuery{Limit: belljar.MaxPage})
	for _, run := range slices.Backward(page.Items) {
		if run.Labels[label] == s.id && run.CreatedAt.Before(began) && (run.FinishedAt == nil || run.FinishedAt.After(began)) {
			s.detach(detachedRun{run, "the server restarted, but an earlier call's"})
		}
	}
	return err
}

// maxDetachedOutput is how many bytes of each stream of a detached run a note holds.
const maxDetachedOutput = 4 << 10

// detachedNotes returns the notes of a result about detached runs; "" if there are none. A note about a one-shot run is repeated
// until the run has ended. A run in a sandbox has one note, because its output can be read.
func (c *call) detachedNotes() string {
	c.session.mu.Lock()
	detached := c.session.detached
	c.session.detached = nil
	c.session.mu.Unlock()
	var b strings.Builder
	for _, d := range detached {
		run, err := c.service.Runs().Get(c, d.ID)
		var out *belljar.Output
		if err == nil && d.SessionID == "" { // the note of another has no output
			run, out, err = c.current(c, d.ID)
		}
		switch {
		case belljar.CodeOf(err) == belljar.CodeNotFound:
		case err != nil:
			c.session.detach(d) // the next result may be able to tell
		case d.SessionID != "":
			fmt.Fprintf(&b, "\n\nnote: %s command continues as exec_id %s in sandbox_id %s (%s): "+
				"read what it printed with sandbox_exec_read, or wait for it with sandbox_exec_wait.", d.why, run.ID, d.SessionID, run.Phase)
		case out != nil:
			text, _ := report(run, out, maxDetachedOutput, "All of it is the resource "+outputURI(run.ID)+".")
			_, left, _ := c.collect(run, nil)
			fmt.Fprintf(&b, "\n\nnote: %s run %s continued and has ended: %s%s", d.why, run.ID, text, left)
		default:
			c.session.detach(d)
			fmt.Fprintf(&b, "\n\nnote: %s run %s continues (%s); its output is the resource %s.", d.why, run.ID, run.Phase, outputURI(run.ID))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// How often a client with a progress token gets a notification.
const (
	progressEvery = time.Second      // while the run prints
	progressQuiet = 10 * time.Second // while it does not
)

// progress notifies a client of the progress of a run.
type progress struct {
	c     *call
	begun time.Time
	stop  chan struct{}
	done  chan struct{}
	waits atomic.Bool            // for an operator's approval
	news  atomic.Pointer[string] // since the last notification; nil if there is none
}

// awaitsApproval is a state in notifications.
const awaitsApproval = "waiting for an operator's approval"

// startProgress starts notifications. waits reports whether the call may wait for an operator's approval.
func (c *call) startProgress(first string, waits bool) *progress {
	p := &progress{c: c, begun: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	p.waits.Store(waits)
	go p.run(first)
	return p
}

// runProgress starts notifications about a run. The first has its id, for clients that stop waiting.
func (c *call) runProgress(run belljar.Run) *progress {
	word := "run"
	if run.SessionID != "" {
		word = "exec"
	}
	return c.startProgress(fmt.Sprintf("%s %s %s", word, run.ID, run.Phase), false)
}

// run sends notifications, the first one immediately. A client that does not read blocks only this goroutine.
func (p *progress) run(first string) {
	defer close(p.done)
	p.notify(first)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			news := p.news.Swap(nil)
			if news == nil && now.Sub(last) >= progressQuiet {
				doing := "running"
				if p.waits.Load() {
					doing = awaitsApproval
				}
				news = new(fmt.Sprintf(doing+" for %v", now.Sub(p.begun).Round(time.Second)))
			}
			if news != nil {
				last = now
				p.notify(*news)
			}
		}
	}
}

// notify sends one notification. Errors are ignored: the client is gone.
func (p *progress) notify(message string) {
	_ = p.c.conn.NotifyProgress(p.c, &sdk.ProgressNotificationParams{
		ProgressToken: p.c.token, Message: message, Progress: float64(time.Since(p.begun).Milliseconds()+1) / 1000,
	})
}

// watch returns a log, and takes news from its frames.
func (p *progress) watch(log iter.Seq2[belljar.Frame, error]) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for f, err := range log {
			if f.Event == belljar.EventApproval {
				p.waits.Store(f.Data["state"] == string(belljar.ApprovalPending))
			}
			if news := newsOf(f); err == nil && news != "" {
				p.news.Store(&news)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// newsOf returns the text of a notification about a frame; "" if there is none.
func newsOf(f belljar.Frame) string {
	switch {
	case f.Type == belljar.FrameStdout || f.Type == belljar.FrameStderr:
		return lastLine(f.Output)
	case f.Event == belljar.EventPhase:
		phase, _ := f.Data["phase"].(string)
		return phase
	case f.Event == belljar.EventApproval && f.Data["state"] == string(belljar.ApprovalPending):
		return awaitsApproval
	case f.Event == belljar.EventApproval:
		return fmt.Sprintf("approval %v", f.Data["state"])
	}
	return ""
}

// close ends the notifications: none comes after the result. The client ignores the result of a cancelled call.
func (p *progress) close() {
	close(p.stop)
	select {
	case <-p.done:
	case <-p.c.Done():
	}
}

// maxLine is how many bytes of a line a notification has.
const maxLine = 200

// lastLine returns the last line of an output that is not empty; "" if it is not UTF-8.
func lastLine(out []byte) string {
	out = bytes.TrimSpace(out)
	if i := bytes.LastIndexAny(out, "\r\n"); i >= 0 {
		out = out[i+1:]
	}
	if len(out) > maxLine {
		out = char.WholeEnd(out[:maxLine])
	}
	if !utf8.Valid(out) {
		return ""
	}
	return string(out)
}
