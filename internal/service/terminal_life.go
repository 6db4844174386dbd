package service

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/box"
)

const (
	// terminalGrace is how long a terminal's programs have between HUP and TERM, and KILL.
	terminalGrace = time.Second
	// endedTerminals is how many terminals of a session are kept after their programs' ends.
	endedTerminals = 8
	// terminalRetries is how often a terminal whose stream broke is joined again.
	terminalRetries = 3
	// paceBytes is how much is printed at once before the pace is looked at: what comes meanwhile comes in fewer pieces.
	paceBytes = 64 << 10
	// resizeGap is how long a size stands before the next one is told.
	resizeGap = 20 * time.Millisecond
)

// run begins a terminal's life: its clocks, and those who work for it. It ends when the program does, or when the
// terminal is ended.
func (t *terminal) run(j *box.Box, proc *agent.Process) {
	s := t.service
	t.mu.Lock()
	t.jar, t.proc = j, proc
	t.mu.Unlock()
	// Whether the program lives on is the session's business, or that of the next process.
	forsake := func(reason string) func() {
		return func() {
			t.end(reason)
			t.stop()
		}
	}
	unhook := context.AfterFunc(t.session.ctx, forsake(closedSession))
	unclose := context.AfterFunc(s.work.Closing(), forsake(closedShutdown))
	s.work.Go(func() {
		t.follow()
		unhook()
		unclose()
	})
	s.work.Go(t.typist)
	s.work.Go(t.fitter)
	t.record(event.TerminalOpened, "", 0)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil {
		return
	}
	if t.opts.Lifetime > 0 {
		left := t.opts.Lifetime - s.clock.Now().Sub(t.state.CreatedAt)
		t.clocks = append(t.clocks, s.clock.AfterFunc(max(left, 0), func() { t.end(closedLifetime) }))
	}
	if t.opts.Idle > 0 {
		t.clocks = append(t.clocks, s.clock.AfterFunc(t.opts.Idle, t.rest))
	}
	t.unattended()
}

// rest ends a terminal that has neither printed nor been typed to for its idle time.
func (t *terminal) rest() {
	t.mu.Lock()
	left := t.opts.Idle - t.service.clock.Now().Sub(t.active)
	if left > 0 && t.last == nil {
		t.clocks[len(t.clocks)-1] = t.service.clock.AfterFunc(left, t.rest)
	}
	t.mu.Unlock()
	if left <= 0 {
		t.end(closedIdle)
	}
}

// unattended begins the reattach window if nobody watches. The caller holds the lock.
func (t *terminal) unattended() {
	if len(t.seats) == 0 && t.unwatch == nil {
		t.state.DetachedAt = t.service.now()
		t.unwatch = t.service.clock.AfterFunc(t.opts.Reattach, t.abandon)
	}
}

// abandon ends a terminal that nobody has come back to.
func (t *terminal) abandon() {
	t.mu.Lock()
	alone := len(t.seats) == 0 && t.service.clock.Now().Sub(t.state.DetachedAt) >= t.opts.Reattach
	t.mu.Unlock()
	if alone {
		t.end(closedDetached)
	}
}

// end ends the terminal: whoever watches hears why, nobody finds it any more, and its program is ended. The first reason
// stays. A program that has ended by itself is forgotten.
func (t *terminal) end(reason string) {
	t.mu.Lock()
	exited := t.last != nil && t.last.Kind == belljar.TerminalExit
	if t.last != nil && !exited {
		t.mu.Unlock()
		return
	}
	proc := t.proc
	t.last = &belljar.TerminalEvent{Kind: belljar.TerminalClosed, Reason: reason}
	t.dismiss()
	t.mu.Unlock()
	if exited {
		t.service.terminals.leave(t)
		if reason != closedSession && reason != closedShutdown {
			t.service.work.Do(func() { t.service.work.Go(t.forget) })
		}
		return
	}
	if reason == closedSession || reason == closedShutdown || reason == closedLost {
		return
	}
	// Shells ignore TERM and heed HUP, which they pass on to their jobs. What of it cannot be told is told by the end of
	// the stream.
	_ = proc.Signal(wire.SIGHUP)
	_ = proc.End(terminalGrace)
	late := time.AfterFunc(terminalGrace+t.service.opts.Slack, t.stop)
	context.AfterFunc(t.ctx, func() { late.Stop() })
}

// dismiss tells everybody who watches how the terminal ended, and stops its clocks. The caller holds the lock.
func (t *terminal) dismiss() {
	for _, a := range t.seats {
		a.finish(*t.last)
	}
	t.seats = nil
	for _, stop := range t.clocks {
		stop()
	}
	t.clocks = nil
	if t.unwatch != nil {
		t.unwatch()
		t.unwatch = nil
	}
}

// follow hands on what the program prints until it ends, and concludes.
func (t *terminal) follow() {
	begun := time.Now()
	exit, err := t.output()
	s := t.service
	t.mu.Lock()
	proc := t.proc
	if t.last == nil {
		switch {
		case err != nil && t.session.ctx.Err() != nil: // whose word is on its way
			t.last = &belljar.TerminalEvent{Kind: belljar.TerminalClosed, Reason: closedSession}
		case err != nil:
			t.last = &belljar.TerminalEvent{Kind: belljar.TerminalClosed, Reason: closedLost}
			s.log.Warn("terminal was lost", "terminal_id", t.id, "session_id", t.session.id, "err", err)
		default:
			code := exit.Code
			if exit.Signal > 0 {
				code = 128 + exit.Signal
			}
			t.state.ExitCode = &code
			t.last = &belljar.TerminalEvent{Kind: belljar.TerminalExit, ExitCode: code}
		}
		t.dismiss()
	}
	last := *t.last
	t.mu.Unlock()
	t.stop()
	proc.Close()
	close(t.over)
	if err == nil && exit.Cause == wire.CauseKillFailed {
		s.boxes.Destroy(t.session.id, t.jar)
	}
	switch {
	case last.Kind == belljar.TerminalExit:
		t.keep()
	case err == nil:
		t.forget()
		s.terminals.leave(t)
	default:
		s.terminals.leave(t)
	}
	t.record(event.TerminalEnded, string(last.Kind)+" "+last.Reason, time.Since(begun))
}

// forget has the agent drop what it knows of a terminal whose program has ended.
func (t *terminal) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), reckoning)
	defer cancel()
	if err := t.jar.Agent.Forget(ctx, terminalExec+t.id); err != nil && !errors.Is(err, agent.ErrDisconnected) {
		t.service.log.Warn("terminal could not be forgotten", "terminal_id", t.id, "err", err)
	}
}

// keep leaves a terminal whose program has ended where it is found, for its reattach window or until its session ends:
// whoever comes back learns how it ended, also from the next process.
func (t *terminal) keep() {
	for _, old := range t.service.terminals.ended(t.session.id, endedTerminals-1, t) {
		old.end(closedDetached)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.Kind == belljar.TerminalExit { // not ended meanwhile
		t.clocks = append(t.clocks,
			t.service.clock.AfterFunc(t.opts.Reattach, func() { t.end(closedDetached) }),
			context.AfterFunc(t.session.ctx, func() { t.end(closedSession) }),
			context.AfterFunc(t.service.work.Closing(), func() { t.end(closedShutdown) }))
	}
}

// output delivers the program's output to its end, over another stream if one breaks. The agent keeps as much of it as
// the history does, for a process that comes after this one.
func (t *terminal) output() (wire.Exit, error) {
	pace := rate.NewLimiter(rate.Limit(t.opts.OutputBytes), max(int(t.opts.OutputBytes/4), paceBytes+wire.MaxData))
	proc := t.process()
	next := proc.Started().From
	due := 0 // printed, not yet waited for
	for tries := 0; ; {
		begin := next
		exit, err := proc.Follow(t.ctx, func(at int64, _ wire.Stream, b []byte) (int64, error) {
			t.deliver(b)
			next = at + int64(len(b))
			safe := next - int64(t.opts.History)
			if due += len(b); due < paceBytes {
				return safe, nil
			}
			n := due
			due = 0
			return safe, pace.WaitN(t.ctx, n)
		})
		if err == nil || t.ctx.Err() != nil || !errors.Is(err, agent.ErrDisconnected) {
			return exit, err
		}
		if next > begin {
			tries = 0
		}
		if tries++; tries > terminalRetries {
			return exit, err
		}
		// Until the runtime knows whether the sandbox lives: an engine that is away is waited for.
		again, failed := t.jar.Agent.Attach(t.ctx, terminalExec+t.id, next)
		if failed != nil {
			return exit, err
		}
		proc = again
		t.mu.Lock()
		t.proc = proc
		t.mu.Unlock()
	}
}

func (t *terminal) process() *agent.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proc
}

// deliver hands output to everybody who watches. One whose queue is full holds the program up for a moment, as a slow
// line would; who stays behind is let go.
func (t *terminal) deliver(b []byte) {
	t.mu.Lock()
	t.history.add(b)
	seats := t.seats
	t.mu.Unlock()
	t.touch(len(seats) > 0)
	patience := t.opts.Patience
	if len(seats) > 1 {
		patience /= 10
	}
	var late <-chan struct{}
	for _, a := range seats {
		if a.put(b) {
			continue
		}
		if late == nil {
			ctx, cancel := context.WithTimeout(t.ctx, patience)
			defer cancel()
			late = ctx.Done()
		}
		if !a.await(late) || !a.put(b) {
			a.finish(belljar.TerminalEvent{Kind: belljar.TerminalOverflow})
			t.unseat(a)
		}
	}
}

// touch notes that the terminal lives, and tells its session: whether it was used, by somebody who types or watches, or
// gave a sign of life only.
func (t *terminal) touch(used bool) {
	now := t.service.clock.Now()
	t.mu.Lock()
	t.active = now
	last := &t.stirred
	if used {
		last = &t.used
	}
	tell := now.Sub(*last) >= time.Second // a session's times need not be more exact
	if tell {
		*last = now
	}
	t.mu.Unlock()
	switch {
	case tell && used:
		t.session.typed()
	case tell:
		t.session.stir()
	}
}

// record records what happened to a terminal.
func (t *terminal) record(name, reason string, took time.Duration) {
	state := t.session.snapshot()
	t.service.opts.Events.Record(event.Event{
		Name: name, Time: t.service.clock.Now(), Caller: t.session.caller, Session: &state, Runtime: state.Runtime,
		Component: component, Reason: reason, Took: took, Detail: map[string]string{"terminal_id": t.id},
	})
}
